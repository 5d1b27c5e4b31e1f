# The agent: a small static program of its own (base, wire and libc only), embedded in rhrun.
# musl-gcc gives under 100 KB; without it a static glibc build works too, only larger.
#
# rhrun refers to rhrun_agent_x86_64 and rhrun_agent_aarch64 (and _size of each); an agent that was
# not built has size 0.
option(RHRUN_AGENT_AARCH64 "also build and embed the agent for aarch64 (needs a cross compiler)" OFF)
set(RHRUN_AGENT_CC_x86_64 "" CACHE FILEPATH "the compiler of the agent for x86_64; default: musl-gcc on such a machine")
set(RHRUN_AGENT_CC_aarch64 "" CACHE FILEPATH "the compiler of the agent for aarch64")

file(GLOB agent_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/agent/*.c
     ${CMAKE_SOURCE_DIR}/src/wire/*.c ${CMAKE_SOURCE_DIR}/src/base/*.c)
list(FILTER agent_sources EXCLUDE REGEX "/src/base/(digest|diagnostics|regex)\\.c$")
file(GLOB agent_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/rhrun/*.h ${CMAKE_SOURCE_DIR}/src/agent/*.h)

set(agent_flags -std=c17 -flto=auto -static -no-pie -fno-pie -ffunction-sections -fdata-sections
  -fno-asynchronous-unwind-tables -fno-unwind-tables
  -D_GNU_SOURCE -DRHRUN_AGENT -DRHRUN_VERSION="${PROJECT_VERSION}" -I${CMAKE_SOURCE_DIR}/include
  -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings
  -Wundef -Wvla -Wconversion -Wformat=2 -Wimplicit-fallthrough -Wswitch-enum
  # No RELRO: the 48 bytes that it would protect would be padded to a page, which makes 103 KB. No static PIE: its code is
  # 2.3 KB larger, 102 KB, and 103 KB with RELRO. Both are over the bound of 100,000 bytes (musl 1.2.3, gcc 12).
  -Wl,--gc-sections -Wl,-z,norelro -Wl,-z,common-page-size=64 -s)
if(RHRUN_WERROR)
  list(APPEND agent_flags -Werror)
endif()

# Built for this machine, whatever the agent's architecture.
set(strip_source ${CMAKE_SOURCE_DIR}/cmake/strip_sections.c)
if(CMAKE_CROSSCOMPILING)
  find_program(RHRUN_HOST_CC NAMES cc gcc clang REQUIRED)
  set(strip_sections ${CMAKE_BINARY_DIR}/strip_sections)
  add_custom_command(OUTPUT ${strip_sections} DEPENDS ${strip_source}
    COMMAND ${RHRUN_HOST_CC} -std=c17 -D_DEFAULT_SOURCE -o ${strip_sections} ${strip_source} VERBATIM)
else()
  set(strip_sections strip_sections)
  add_executable(strip_sections ${strip_source})
  target_compile_definitions(strip_sections PRIVATE _DEFAULT_SOURCE)
endif()

# rhrun_build_agent(TARGET COMPILER FILE): one agent.
function(rhrun_build_agent target compiler out)
  execute_process(COMMAND ${compiler} -Oz -E -x c /dev/null RESULT_VARIABLE oz OUTPUT_QUIET ERROR_QUIET)
  if(oz EQUAL 0)
    set(small -Oz -fstack-protector-strong)
  else() # gcc before 12: the few KB that -Os is larger must not break the bound of 100 KB
    set(small -Os -fstack-protector)
  endif()
  # clang does not know all of these flags; glibc's headers use floating-point numbers, which -mgeneral-regs-only refuses
  foreach(flag -flto-partition=one -mgeneral-regs-only -fno-caller-saves -fno-jump-tables -fno-move-loop-invariants
          -fno-tree-tail-merge -fno-tree-sra -fno-forward-propagate -fipa-pta)
    execute_process(COMMAND ${compiler} -O2 -Werror ${flag} -include stdlib.h -S -o /dev/null -x c /dev/null
                    WORKING_DIRECTORY ${CMAKE_BINARY_DIR} RESULT_VARIABLE known OUTPUT_QUIET ERROR_QUIET)
    if(known EQUAL 0)
      list(APPEND small ${flag})
    endif()
  endforeach()
  # all segments share pages: lld does so by default, and zig, which uses lld, refuses the flag
  set(test ${CMAKE_BINARY_DIR}/agent-test.c)
  file(WRITE ${test} "int main(void) { return 0; }")
  execute_process(COMMAND ${compiler} -static -Wl,-z,noseparate-code -o ${test}.out ${test} RESULT_VARIABLE known OUTPUT_QUIET ERROR_QUIET)
  if(known EQUAL 0)
    list(APPEND small -Wl,-z,noseparate-code)
  endif()
  get_filename_component(folder ${out} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${out}
    COMMAND ${compiler} ${small} ${agent_flags} -o ${out} ${agent_sources}
    COMMAND ${strip_sections} ${out}
    DEPENDS ${strip_sections} ${agent_sources} ${agent_headers} COMMENT "Building the agent ${target}" VERBATIM)
  add_custom_target(${target} ALL DEPENDS ${out})
endfunction()

# The unit tests are defined after this file, so this function runs once they are known.
function(rhrun_agent_tests)
  if(NOT RHRUN_TESTS)
    return()
  endif()
  set(conversations "")
  foreach(test test_wire_agent test_wire_killed test_wire_disk test_wire_sync test_wire_sync_cut test_wire_fetch test_wire_preempted test_wire_notice)
    if(TARGET ${test})
      add_dependencies(${test} rhrun_agent)
      list(APPEND conversations ${test})
    endif()
  endforeach()
  if(MUSL_GCC)
    add_test(NAME agent_size COMMAND ${CMAKE_COMMAND} -DFILE=${CMAKE_BINARY_DIR}/agent/rhrun-agent -DMAX=100000
      -P ${CMAKE_SOURCE_DIR}/cmake/check-size.cmake)
  endif()
  find_program(QEMU_AARCH64 NAMES qemu-aarch64-static qemu-aarch64)
  if(QEMU_AARCH64 AND TARGET rhrun_agent_aarch64)
    # the same conversations as with the native agent
    file(WRITE ${CMAKE_BINARY_DIR}/agent-aarch64/run "#!/bin/sh\nexec '${QEMU_AARCH64}' '${CMAKE_BINARY_DIR}/agent-aarch64/rhrun-agent' \"$@\"\n")
    file(CHMOD ${CMAKE_BINARY_DIR}/agent-aarch64/run PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
    foreach(test ${conversations})
      if(test STREQUAL "test_wire_disk")
        continue() # it tests files on the disk, which are the same
      endif()
      add_dependencies(${test} rhrun_agent_aarch64)
      add_test(NAME ${test}_aarch64 COMMAND ${test})
      set_tests_properties(${test}_aarch64 PROPERTIES
        ENVIRONMENT "RHRUN_TEST_AGENT=${CMAKE_BINARY_DIR}/agent-aarch64/run")
    endforeach()
  endif()
endfunction()

find_program(MUSL_GCC musl-gcc)
set(agent_native x86_64)
if(CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(agent_native aarch64)
endif()
foreach(arch x86_64 aarch64)
  set(cc ${RHRUN_AGENT_CC_${arch}})
  set(target rhrun_agent_${arch})
  set(file ${CMAKE_BINARY_DIR}/agent-${arch}/rhrun-agent)
  if(arch STREQUAL agent_native)
    set(target rhrun_agent)
    set(file ${CMAKE_BINARY_DIR}/agent/rhrun-agent)
    if(NOT cc AND MUSL_GCC)
      set(cc ${MUSL_GCC})
    elseif(NOT cc)
      set(cc ${CMAKE_C_COMPILER})
      message(WARNING "no musl-gcc (Debian: musl-tools): the agent is built with ${cc} and is larger")
    endif()
  elseif(NOT cc AND arch STREQUAL "aarch64" AND RHRUN_AGENT_AARCH64)
    find_program(AARCH64_GCC NAMES aarch64-linux-musl-gcc aarch64-linux-gnu-gcc)
    if(NOT AARCH64_GCC)
      message(FATAL_ERROR "RHRUN_AGENT_AARCH64: no aarch64-linux-musl-gcc and no aarch64-linux-gnu-gcc "
        "(Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross)")
    endif()
    set(cc ${AARCH64_GCC})
  endif()
  if(cc)
    rhrun_build_agent(${target} ${cc} ${file})
    add_dependencies(rhrun_transport ${target})
  else()
    set(file ${CMAKE_BINARY_DIR}/agent-none)
    file(WRITE ${file} "")
  endif()
  rhrun_embed(rhrun_transport rhrun_agent_${arch} ${file})
endforeach()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL rhrun_agent_tests)
