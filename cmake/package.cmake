# A Debian package of the built files: cpack -G DEB (docs/install.md). cpack builds nothing: build the target rhrun first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME rhrun)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The rhrun authors <rhrun@rhrun.invalid>" CACHE STRING "who maintains the package: NAME <ADDRESS>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "declarative runner of distributed jobs")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "runs a job that one YAML file describes: on this machine, on hosts over
SSH, or on machines that it rents. Every finished step is kept, so the same
command run again after a crash or an edit does only what is missing or changed.
A host needs sshd and a POSIX shell, and nothing of rhrun.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Libraries that are loaded when needed, so no tool finds them; and programs that rhrun calls.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libcurl4 | libcurl4t64, libxml2 | libxml2-16, git, openssh-client")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/packaging/deb/layout.cmake)
set(CPACK_RHRUN_SOURCE ${CMAKE_SOURCE_DIR})
include(CPack)
