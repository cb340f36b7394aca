# Run as a script by a build step: OUT becomes a C source with each of FILES, NAME=PATH pairs, as an array of bytes:
# report_asset_NAME and its length report_asset_NAME_len (report/assets.h).
set(text "#include \"report/assets.h\"\n")
foreach(pair ${FILES})
    string(REGEX MATCH "^([a-z_]+)=(.*)$" pair "${pair}")
    set(name report_asset_${CMAKE_MATCH_1})
    file(READ "${CMAKE_MATCH_2}" bytes HEX)
    string(LENGTH "${bytes}" digits)
    math(EXPR len "${digits} / 2")
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND text "const unsigned char ${name}[] = {\n${bytes}};\nconst size_t ${name}_len = ${len};\n")
endforeach()
file(WRITE "${OUT}" "${text}")
