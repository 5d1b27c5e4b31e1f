# cmake -DSOURCE=FOLDER -DOUT=FILE -P commit.cmake: writes C with the commit of SOURCE: "1a2b3c4d5e6f", with "-dirty" if tracked
# files differ from the commit, "" if it is unknown. A git archive has its commit in commit.txt. FILE is not written if it has
# this commit already.
set(commit "")
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} describe --always --abbrev=12 --exclude * --dirty
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
else()
  file(READ ${SOURCE}/cmake/commit.txt text)
  if(text MATCHES "^([0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f])")
    set(commit ${CMAKE_MATCH_1})
  endif()
endif()
if(NOT commit MATCHES "^[0-9a-f]+(-dirty)?$")
  set(commit "")
endif()
set(text "extern const char rhrun_commit[];\nconst char rhrun_commit[] = \"${commit}\";\n")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUT} "${text}")
endif()
