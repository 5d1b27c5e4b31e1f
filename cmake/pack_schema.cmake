# cmake -DFROM=FILE -DTO=FILE -P pack_schema.cmake: a JSON Schema without what only people read of it (descriptions, blanks).
# The program reads the schema each time it starts; this makes that text less than half as long.
file(READ "${FROM}" text)
string(REGEX REPLACE "\"(description|[$]comment)\": \"([^\"\\]|\\\\.)*\",?" "" text "${text}")
string(REGEX REPLACE ",([ \n]*[}])" "\\1" text "${text}")
string(REGEX REPLACE "\n *" "\n" text "${text}")
string(REGEX REPLACE "\n+" "\n" text "${text}")
file(WRITE "${TO}" "${text}")
