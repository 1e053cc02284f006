/* imagedecoder.c - rows of ImageDecoder; its formats are tests/picture's and the standard's cases. */
#include "case.h"

#define CONSTANT "zero by nature"

/* "P6 2 1 255\n", red and blue; "P5 1 2 255\n". */
#define RED_BLUE "u8[17]=80,54,32,50,32,49,32,50,53,53,10,255,0,0,0,0,255"
#define GREY "u8[13]=80,53,32,49,32,50,32,50,53,53,10,7,200"

const ot_case ot_cases_ImageDecoder[] = {
    { .name = "rgb", .in = RED_BLUE, .out = "u8[1,2,3]", .y = "255,0,0,0,0,255", .no_grad = CONSTANT },
    { .name = "bgr", .in = RED_BLUE, .attrs = "pixel_format=BGR", .out = "u8[1,2,3]", .y = "0,0,255,255,0,0", .no_grad = CONSTANT },
    { .name = "luma", .in = RED_BLUE, .attrs = "pixel_format=Grayscale", .out = "u8[1,2,1]", .y = "76,29", .no_grad = CONSTANT },
    { .name = "grey", .in = GREY, .out = "u8[2,1,3]", .y = "7,7,7,200,200,200", .no_grad = CONSTANT },
    { .name = "grey_to_grey", .in = GREY, .attrs = "pixel_format=Grayscale", .out = "u8[2,1,1]", .y = "7,200", .no_grad = CONSTANT },
    { .name = "cut", .in = "u8[16]=80,54,32,50,32,49,32,50,53,53,10,255,0,0,0,0", .out = "u8[0,0,3]", .no_grad = CONSTANT },
    { .name = "no_picture", .in = "u8[4]=1,2,3,4", .attrs = "pixel_format=Grayscale", .out = "u8[0,0,1]", .no_grad = CONSTANT },
    { .name = "unknown", .in = "u8[17]", .fail = OT_E_MODEL },
    { .name = "matrix", .in = "u8[1,4]=1,2,3,4", .fail = OT_E_MODEL },
    { .name = "signed", .in = "i8[4]=1,2,3,4", .fail = OT_E_MODEL },
    { 0 }
};
