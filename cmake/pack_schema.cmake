# cmake -DFROM=FILE -DTO=FILE -P pack_schema.cmake: a JSON Schema without the parts for people (descriptions, blanks).
# The program reads the schema at each start; this halves the text.
file(READ "${FROM}" text)
string(REGEX REPLACE "\"(description|[$]comment)\": \"([^\"\\]|\\\\.)*\",?" "" text "${text}")
string(REGEX REPLACE ",([ \n]*[}])" "\\1" text "${text}")
string(REGEX REPLACE "\n *" "\n" text "${text}")
string(REGEX REPLACE "\n+" "\n" text "${text}")
file(WRITE "${TO}" "${text}")
