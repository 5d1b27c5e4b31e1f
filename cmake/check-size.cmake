# cmake -DFILE=F -DMAX=BYTES -P check-size.cmake: fails when F is not smaller than that.
file(SIZE ${FILE} size)
if(NOT size LESS MAX)
  message(FATAL_ERROR "${FILE} has ${size} bytes, ${MAX} are too many")
endif()
message(STATUS "${FILE}: ${size} bytes")
