# What Debian has elsewhere, or compressed; cpack runs it on the folder that becomes the package.
set(share ${CPACK_TEMPORARY_DIRECTORY}/usr/share)
set(doc ${share}/doc/rhrun)
function(gzip file)
  execute_process(COMMAND gzip -9n ${file} RESULT_VARIABLE status)
  if(status)
    message(FATAL_ERROR "could not compress ${file}")
  endif()
endfunction()
gzip(${share}/man/man1/rhrun.1)
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
gzip(${doc}/changelog)
file(REMOVE ${doc}/LICENSE ${doc}/NOTICES)
file(COPY ${CPACK_RHRUN_SOURCE}/packaging/deb/copyright DESTINATION ${doc}
     FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
file(MAKE_DIRECTORY ${share}/zsh/vendor-completions)
file(RENAME ${share}/zsh/site-functions/_rhrun ${share}/zsh/vendor-completions/_rhrun)
file(REMOVE_RECURSE ${share}/zsh/site-functions)
# dpkg names a package by the last entry; its date is that of the build, or the one that must come out twice the same
string(TIMESTAMP date "%Y-%m-%d %H:%M:%S" UTC)
execute_process(COMMAND date -u -R -d ${date} OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE)
file(WRITE ${doc}/changelog.Debian "rhrun (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * See changelog.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
gzip(${doc}/changelog.Debian)
