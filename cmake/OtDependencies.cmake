# Every library the program needs: the interface target ot_dependencies.

add_library(ot_dependencies INTERFACE)

# ot_need(NAME HEADER LIBRARY PACKAGE): a library that has only a header and a file.
function(ot_need name header library package)
    find_path(OT_${name}_INCLUDE ${header})
    find_library(OT_${name}_LIBRARY ${library})
    if(NOT OT_${name}_INCLUDE OR NOT OT_${name}_LIBRARY)
        message(FATAL_ERROR "${name} is missing (${header}, lib${library}). Debian: apt-get install ${package}")
    endif()
    target_include_directories(ot_dependencies SYSTEM INTERFACE ${OT_${name}_INCLUDE})
    target_link_libraries(ot_dependencies INTERFACE ${OT_${name}_LIBRARY})
endfunction()

ot_need(protobuf-c protobuf-c/protobuf-c.h protobuf-c libprotobuf-c-dev)
ot_need(jansson jansson.h jansson libjansson-dev)
ot_need(inih ini.h inih libinih-dev)
ot_need(zlib zlib.h z zlib1g-dev)
ot_need(libjpeg-turbo jpeglib.h jpeg libjpeg-dev)
ot_need(libspng spng.h spng libspng-dev)
ot_need(libwebp webp/decode.h webp libwebp-dev)
# Not by its CMake package: Debian's needs OpenCL's headers, which a CPU build does not use.
ot_need(oneDNN oneapi/dnnl/dnnl.h dnnl libdnnl-dev)

# ot_offer(PART MACRO HEADER LIBRARY PACKAGE WITHOUT [SUFFIXES folder...] [NEEDS word]): an optional library of the files of PART, which are
# compiled with MACRO where it is found: ot_PART_definitions and ot_PART_includes.  WITHOUT: what the program then cannot do, which it also
# says when asked for it, with PACKAGE.  NEEDS: a word of the header that older versions lack.
function(ot_offer part macro header library package without)
    cmake_parse_arguments(PARSE_ARGV 6 offer "" "NEEDS" "SUFFIXES")
    if(NOT offer_NEEDS)
        set(offer_NEEDS ".")
    endif()
    find_path(${macro}_INCLUDE ${header} PATH_SUFFIXES ${offer_SUFFIXES})
    find_library(${macro}_LIBRARY ${library})
    set(found FALSE)
    if(${macro}_INCLUDE AND ${macro}_LIBRARY)
        file(STRINGS ${${macro}_INCLUDE}/${header} found REGEX "${offer_NEEDS}" LIMIT_COUNT 1)
    endif()
    if(NOT found)
        message(STATUS "${library} (${header}) is missing or too old: ${without}. Debian: apt-get install ${package}")
        return()
    endif()
    target_link_libraries(ot_dependencies INTERFACE ${${macro}_LIBRARY})
    set(ot_${part}_definitions ${ot_${part}_definitions} ${macro} PARENT_SCOPE)
    set(ot_${part}_includes ${ot_${part}_includes} ${${macro}_INCLUDE} PARENT_SCOPE)
endfunction()

foreach(part picture stream sound text fetch)
    set(ot_${part}_definitions)
    set(ot_${part}_includes)
endforeach()
# TIFFOpenOptionsAlloc, since 4.5: errors and limits of one file, not of the process.
ot_offer(picture OT_HAVE_TIFF tiffio.h tiff libtiff-dev "no TIFF" NEEDS TIFFOpenOptionsAlloc)
ot_offer(picture OT_HAVE_OPENJPEG openjpeg.h openjp2 libopenjp2-7-dev "no JPEG 2000"
    SUFFIXES openjpeg-2.5 openjpeg-2.6 openjpeg-2.4 openjpeg-2.3)
ot_offer(picture OT_HAVE_CAIRO cairo.h cairo libcairo2-dev "no charts as PNG" SUFFIXES cairo)
ot_offer(stream OT_HAVE_ZSTD zstd_errors.h zstd libzstd-dev "no .zst")
ot_offer(sound OT_HAVE_SNDFILE sndfile.h sndfile libsndfile1-dev "no recordings (WAV, FLAC)")
ot_offer(text OT_HAVE_UTF8PROC utf8proc.h utf8proc libutf8proc-dev "no tokenizers, which need Unicode's tables")
ot_offer(fetch OT_HAVE_CURL curl/curl.h curl libcurl4-openssl-dev "no 'data fetch'" NEEDS CURLOPT_PROTOCOLS_STR)
ot_offer(fetch OT_HAVE_CRYPTO openssl/evp.h crypto libssl-dev "no 'data fetch'")

find_path(OT_RANDOM123_INCLUDE Random123/philox.h)
if(NOT OT_RANDOM123_INCLUDE)
    message(FATAL_ERROR "Random123 is missing (Random123/philox.h). Debian: apt-get install librandom123-dev")
endif()
target_include_directories(ot_dependencies SYSTEM INTERFACE ${OT_RANDOM123_INCLUDE})

find_package(OpenMP QUIET COMPONENTS C)
if(NOT OpenMP_C_FOUND)
    message(FATAL_ERROR "OpenMP is missing for ${CMAKE_C_COMPILER}. Debian: apt-get install gcc, or libomp-dev for clang")
endif()
target_link_libraries(ot_dependencies INTERFACE OpenMP::OpenMP_C)

# glibc's vector mathematics: on x86-64, not everywhere.
find_library(OT_MVEC_LIBRARY mvec)
if(OT_MVEC_LIBRARY)
    target_link_libraries(ot_dependencies INTERFACE ${OT_MVEC_LIBRARY})
endif()

find_package(Threads REQUIRED)
target_link_libraries(ot_dependencies INTERFACE Threads::Threads m)
