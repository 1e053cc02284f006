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

# Optional image formats: without the library the program names the missing package when it reads such a file.
find_path(OT_TIFF_INCLUDE tiffio.h)
find_library(OT_TIFF_LIBRARY tiff)
set(ot_tiff_new)
set(ot_picture_definitions) # of runtime/picture alone
set(ot_picture_includes)
if(OT_TIFF_INCLUDE AND OT_TIFF_LIBRARY) # 4.5 or newer: errors and limits of one file, not of the process
    file(STRINGS ${OT_TIFF_INCLUDE}/tiffio.h ot_tiff_new REGEX "TIFFOpenOptionsAlloc")
endif()
if(ot_tiff_new)
    target_link_libraries(ot_dependencies INTERFACE ${OT_TIFF_LIBRARY})
    list(APPEND ot_picture_definitions OT_HAVE_TIFF)
    list(APPEND ot_picture_includes ${OT_TIFF_INCLUDE})
else()
    message(STATUS "libtiff 4.5 or newer is missing: no TIFF. Debian: apt-get install libtiff-dev")
endif()
find_path(OT_OPENJPEG_INCLUDE openjpeg.h PATH_SUFFIXES openjpeg-2.5 openjpeg-2.6 openjpeg-2.4 openjpeg-2.3)
find_library(OT_OPENJPEG_LIBRARY openjp2)
if(OT_OPENJPEG_INCLUDE AND OT_OPENJPEG_LIBRARY)
    target_link_libraries(ot_dependencies INTERFACE ${OT_OPENJPEG_LIBRARY})
    list(APPEND ot_picture_definitions OT_HAVE_OPENJPEG)
    list(APPEND ot_picture_includes ${OT_OPENJPEG_INCLUDE})
else()
    message(STATUS "OpenJPEG is missing: no JPEG 2000. Debian: apt-get install libopenjp2-7-dev")
endif()

# Optional: charts as PNG.
find_path(OT_CAIRO_INCLUDE cairo.h PATH_SUFFIXES cairo)
find_library(OT_CAIRO_LIBRARY cairo)
if(OT_CAIRO_INCLUDE AND OT_CAIRO_LIBRARY)
    target_link_libraries(ot_dependencies INTERFACE ${OT_CAIRO_LIBRARY})
    list(APPEND ot_picture_definitions OT_HAVE_CAIRO)
    list(APPEND ot_picture_includes ${OT_CAIRO_INCLUDE})
else()
    message(STATUS "cairo is missing: no charts as PNG. Debian: apt-get install libcairo2-dev")
endif()

# Optional: data files in .zst.
find_path(OT_ZSTD_INCLUDE zstd_errors.h)
find_library(OT_ZSTD_LIBRARY zstd)
set(ot_stream_definitions) # of runtime/data/stream.c alone
set(ot_stream_includes)
if(OT_ZSTD_INCLUDE AND OT_ZSTD_LIBRARY)
    target_link_libraries(ot_dependencies INTERFACE ${OT_ZSTD_LIBRARY})
    list(APPEND ot_stream_definitions OT_HAVE_ZSTD)
    list(APPEND ot_stream_includes ${OT_ZSTD_INCLUDE})
else()
    message(STATUS "libzstd is missing: no .zst. Debian: apt-get install libzstd-dev")
endif()

# Optional: recordings (WAV, FLAC).
find_path(OT_SNDFILE_INCLUDE sndfile.h)
find_library(OT_SNDFILE_LIBRARY sndfile)
set(ot_sound_definitions) # of runtime/data/sound_file.c alone
set(ot_sound_includes)
if(OT_SNDFILE_INCLUDE AND OT_SNDFILE_LIBRARY)
    target_link_libraries(ot_dependencies INTERFACE ${OT_SNDFILE_LIBRARY})
    list(APPEND ot_sound_definitions OT_HAVE_SNDFILE)
    list(APPEND ot_sound_includes ${OT_SNDFILE_INCLUDE})
else()
    message(STATUS "libsndfile is missing: no recordings. Debian: apt-get install libsndfile1-dev")
endif()

# Optional: Unicode's tables, for tokenizers.
find_path(OT_UTF8PROC_INCLUDE utf8proc.h)
find_library(OT_UTF8PROC_LIBRARY utf8proc)
set(ot_text_definitions) # of runtime/text alone
set(ot_text_includes)
if(OT_UTF8PROC_INCLUDE AND OT_UTF8PROC_LIBRARY)
    target_link_libraries(ot_dependencies INTERFACE ${OT_UTF8PROC_LIBRARY})
    list(APPEND ot_text_definitions OT_HAVE_UTF8PROC)
    list(APPEND ot_text_includes ${OT_UTF8PROC_INCLUDE})
else()
    message(STATUS "utf8proc is missing: no tokenizers. Debian: apt-get install libutf8proc-dev")
endif()

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
