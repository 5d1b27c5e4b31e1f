# The agent: a small static program of its own (base, wire and libc only), embedded in rhrun.
# musl-gcc gives under 100 KB; without it a static glibc build works too, only larger.
file(GLOB agent_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/agent/*.c
     ${CMAKE_SOURCE_DIR}/src/wire/*.c ${CMAKE_SOURCE_DIR}/src/base/*.c)
list(FILTER agent_sources EXCLUDE REGEX "/src/base/(digest|diagnostics)\\.c$")
file(GLOB agent_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/rhrun/*.h ${CMAKE_SOURCE_DIR}/src/agent/*.h)
if(EXISTS ${CMAKE_SOURCE_DIR}/src/agent/main.c)
  find_program(MUSL_GCC musl-gcc)
  if(MUSL_GCC)
    set(agent_cc ${MUSL_GCC})
  else()
    set(agent_cc ${CMAKE_C_COMPILER})
    message(WARNING "no musl-gcc (Debian: musl-tools): the agent is built with ${agent_cc} and is larger")
  endif()
  set(agent_flags -std=c17 -Os -static -no-pie -fno-pie -ffunction-sections -fdata-sections
    -fno-asynchronous-unwind-tables -fno-unwind-tables -fstack-protector-strong
    -D_GNU_SOURCE -DRHRUN_AGENT -DRHRUN_VERSION="${PROJECT_VERSION}" -I${CMAKE_SOURCE_DIR}/include
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
    -Wl,--gc-sections -Wl,-z,noseparate-code -s)
  if(RHRUN_WERROR)
    list(APPEND agent_flags -Werror)
  endif()
  set(agent_out ${CMAKE_BINARY_DIR}/agent/rhrun-agent)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/agent)
  add_custom_command(OUTPUT ${agent_out}
    COMMAND ${agent_cc} ${agent_flags} -o ${agent_out} ${agent_sources}
    DEPENDS ${agent_sources} ${agent_headers} COMMENT "Building the agent" VERBATIM)
  add_custom_target(rhrun_agent ALL DEPENDS ${agent_out})
  if(TARGET rhrun_transport)
    get_target_property(kind rhrun_transport TYPE)
    if(NOT kind STREQUAL "INTERFACE_LIBRARY")
      rhrun_embed(rhrun_transport rhrun_agent_x86_64 ${agent_out})
      add_dependencies(rhrun_transport rhrun_agent)
    endif()
  endif()
endif()
