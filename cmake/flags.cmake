# Warnings, hardening and sanitizers for one target.
function(rhrun_flags target)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE RHRUN_VERSION="${PROJECT_VERSION}" RHRUN_STATIC=$<BOOL:${RHRUN_STATIC}>)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings
    -Wundef -Wvla -Wconversion -Wformat=2 -Wimplicit-fallthrough -Wswitch-enum)
  if(RHRUN_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(RHRUN_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined -fno-sanitize-recover=undefined
      -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
    target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now)
  endif()
  if(RHRUN_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link,address)
    target_link_options(${target} PRIVATE -fsanitize=address)
  endif()
endfunction()
