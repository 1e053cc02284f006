/* recipes.c - the networks `onnxtrain new` makes.
 *
 * A new kind is a function of a few lines and a row at the end of this file, with the keys that it takes.
 *
 * Source  AlexNet: Krizhevsky 2014, the form with one column.  ResNet-50: He et al. 2016 with the stride in the 3x3
 *         convolution.  LeNet: LeCun et al. 1998 in the widely used 20-50-500 form.  VGG: Simonyan & Zisserman 2015
 *         with batch normalisation, narrow, for 32x32.  ResNet-18: He et al. 2016 with the 3x3 stem
 *         for 32x32.  MobileNetV2: Sandler et al. 2018 with the strides usual for 32x32. */
#include "exporter/build.h"

#include <string.h>

static ot_feature lenet(ot_net *b, ot_feature x)
{
    int64_t c1 = ot_net_scaled(b, 20, 1), c2 = ot_net_scaled(b, 50, 1), f = ot_net_scaled(b, 500, 1);
    x = ot_net_relu(b, ot_net_conv(b, x, "conv1", (ot_net_window){ .out = c1, .kernel = 5 }), "relu1");
    x = ot_net_max_pool(b, x, "pool1", (ot_net_window){ .kernel = 2, .stride = 2 });
    x = ot_net_relu(b, ot_net_conv(b, x, "conv2", (ot_net_window){ .out = c2, .kernel = 5 }), "relu2");
    x = ot_net_max_pool(b, x, "pool2", (ot_net_window){ .kernel = 2, .stride = 2 });
    x = ot_net_flatten(b, x, "flatten");
    x = ot_net_relu(b, ot_net_linear(b, x, "fc1", f), "relu3");
    return ot_net_linear(b, x, "fc2", b->o.classes);
}

static ot_feature mlp(ot_net *b, ot_feature x)
{
    const int64_t *hidden = b->o.hidden;
    int n = b->o.n_hidden;
    for (int i = 0; i < n; i++) {
        int64_t units = ot_net_scaled(b, hidden[i], 1);
        x = ot_net_linear(b, x, ot_net_name(b, "fc%d", i + 1), units);
        x = ot_net_relu(b, x, ot_net_name(b, "relu%d", i + 1));
    }
    return ot_net_linear(b, x, ot_net_name(b, "fc%d", n + 1), b->o.classes);
}

/* conv without bias, norm, relu */
static ot_feature conv_norm(ot_net *b, ot_feature x, const char *conv, const char *norm, ot_net_window w)
{
    w.no_bias = true;
    return ot_net_norm(b, ot_net_conv(b, x, conv, w), norm);
}

static ot_feature vgg(ot_net *b, ot_feature x)
{
    for (int stage = 1; stage <= 3; stage++) {
        int64_t c = ot_net_scaled(b, 16 << stage, 1); /* 32, 64, 128 */
        for (int i = 1; i <= 2; i++) {
            x = conv_norm(b, x, ot_net_name(b, "conv%d_%d", stage, i), ot_net_name(b, "bn%d_%d", stage, i),
                          (ot_net_window){ .out = c, .kernel = 3, .pad = 1 });
            x = ot_net_relu(b, x, ot_net_name(b, "relu%d_%d", stage, i));
        }
        x = ot_net_max_pool(b, x, ot_net_name(b, "pool%d", stage), (ot_net_window){ .kernel = 2, .stride = 2 });
    }
    x = ot_net_flatten(b, x, "flatten");
    x = ot_net_relu(b, ot_net_linear(b, x, "fc1", ot_net_scaled(b, 256, 1)), "relu_fc1");
    return ot_net_linear(b, x, "fc2", b->o.classes);
}

/* Two 3x3 convolutions around a shortcut. */
static ot_feature basic_block(ot_net *b, ot_feature x, const char *at, int64_t c, int64_t stride)
{
    ot_feature y = conv_norm(b, x, ot_net_name(b, "%s.conv1", at), ot_net_name(b, "%s.bn1", at),
                             (ot_net_window){ .out = c, .kernel = 3, .stride = stride, .pad = 1 });
    y = ot_net_relu(b, y, ot_net_name(b, "%s.relu1", at));
    y = conv_norm(b, y, ot_net_name(b, "%s.conv2", at), ot_net_name(b, "%s.bn2", at),
                  (ot_net_window){ .out = c, .kernel = 3, .pad = 1 });
    if (stride != 1 || x.c != c)
        x = conv_norm(b, x, ot_net_name(b, "%s.downsample.0", at), ot_net_name(b, "%s.downsample.1", at),
                      (ot_net_window){ .out = c, .kernel = 1, .stride = stride });
    return ot_net_relu(b, ot_net_add(b, y, x, ot_net_name(b, "%s.add", at)), ot_net_name(b, "%s.relu2", at));
}

static ot_feature resnet18(ot_net *b, ot_feature x)
{
    x = conv_norm(b, x, "conv1", "bn1", (ot_net_window){ .out = ot_net_scaled(b, 64, 1), .kernel = 3, .pad = 1 });
    x = ot_net_relu(b, x, "relu");
    for (int layer = 0; layer < 4; layer++)
        for (int i = 0; i < 2; i++)
            x = basic_block(b, x, ot_net_name(b, "layer%d.%d", layer + 1, i), ot_net_scaled(b, 64 << layer, 1),
                            layer > 0 && i == 0 ? 2 : 1);
    x = ot_net_flatten(b, ot_net_global_pool(b, x, "avgpool"), "flatten");
    return ot_net_linear(b, x, "fc", b->o.classes);
}

static ot_feature alexnet(ot_net *b, ot_feature x)
{
    static const struct {
        int out, kernel, stride, pad;
        bool pool;
    } layer[] = {
        { 64, 11, 4, 2, true },  { 192, 5, 1, 2, true }, { 384, 3, 1, 1, false },
        { 256, 3, 1, 1, false }, { 256, 3, 1, 1, true },
    };
    for (int i = 0; i < OT_LEN(layer); i++) {
        x = ot_net_conv(b, x, ot_net_name(b, "conv%d", i + 1),
                        (ot_net_window){ .out = ot_net_scaled(b, layer[i].out, 1),
                                         .kernel = layer[i].kernel,
                                         .stride = layer[i].stride,
                                         .pad = layer[i].pad });
        x = ot_net_relu(b, x, ot_net_name(b, "relu%d", i + 1));
        if (layer[i].pool)
            x = ot_net_max_pool(b, x, ot_net_name(b, "pool%d", i + 1), (ot_net_window){ .kernel = 3, .stride = 2 });
    }
    x = ot_net_flatten(b, x, "flatten");
    for (int i = 6; i <= 7; i++)
        x = ot_net_relu(b, ot_net_linear(b, x, ot_net_name(b, "fc%d", i), ot_net_scaled(b, 4096, 1)),
                        ot_net_name(b, "relu%d", i));
    return ot_net_linear(b, x, "fc8", b->o.classes);
}

/* 1x1 down to c channels, 3x3, 1x1 up to four times as many, around a shortcut. */
static ot_feature bottleneck(ot_net *b, ot_feature x, const char *at, int64_t c, int64_t stride)
{
    ot_feature y = conv_norm(b, x, ot_net_name(b, "%s.conv1", at), ot_net_name(b, "%s.bn1", at),
                             (ot_net_window){ .out = c, .kernel = 1 });
    y = ot_net_relu(b, y, ot_net_name(b, "%s.relu1", at));
    y = conv_norm(b, y, ot_net_name(b, "%s.conv2", at), ot_net_name(b, "%s.bn2", at),
                  (ot_net_window){ .out = c, .kernel = 3, .stride = stride, .pad = 1 });
    y = ot_net_relu(b, y, ot_net_name(b, "%s.relu2", at));
    y = conv_norm(b, y, ot_net_name(b, "%s.conv3", at), ot_net_name(b, "%s.bn3", at),
                  (ot_net_window){ .out = 4 * c, .kernel = 1 });
    if (stride != 1 || x.c != 4 * c)
        x = conv_norm(b, x, ot_net_name(b, "%s.downsample.0", at), ot_net_name(b, "%s.downsample.1", at),
                      (ot_net_window){ .out = 4 * c, .kernel = 1, .stride = stride });
    return ot_net_relu(b, ot_net_add(b, y, x, ot_net_name(b, "%s.add", at)), ot_net_name(b, "%s.relu3", at));
}

static ot_feature resnet50(ot_net *b, ot_feature x)
{
    static const int blocks[] = { 3, 4, 6, 3 };
    x = conv_norm(b, x, "conv1", "bn1",
                  (ot_net_window){ .out = ot_net_scaled(b, 64, 1), .kernel = 7, .stride = 2, .pad = 3 });
    x = ot_net_max_pool(b, ot_net_relu(b, x, "relu"), "maxpool", (ot_net_window){ .kernel = 3, .stride = 2, .pad = 1 });
    for (int layer = 0; layer < 4; layer++)
        for (int i = 0; i < blocks[layer]; i++)
            x = bottleneck(b, x, ot_net_name(b, "layer%d.%d", layer + 1, i), ot_net_scaled(b, 64 << layer, 1),
                           layer > 0 && i == 0 ? 2 : 1);
    x = ot_net_flatten(b, ot_net_global_pool(b, x, "avgpool"), "flatten");
    return ot_net_linear(b, x, "fc", b->o.classes);
}

/* Widen with 1x1, filter each channel alone, narrow with 1x1. */
static ot_feature inverted_residual(ot_net *b, ot_feature x, const char *at, int64_t expand, int64_t c, int64_t stride)
{
    ot_feature y = x;
    int64_t inner = x.c * expand;
    if (expand > 1) {
        y = conv_norm(b, y, ot_net_name(b, "%s.expand", at), ot_net_name(b, "%s.expand_bn", at),
                      (ot_net_window){ .out = inner, .kernel = 1 });
        y = ot_net_relu6(b, y, ot_net_name(b, "%s.expand_act", at));
    }
    y = conv_norm(b, y, ot_net_name(b, "%s.depthwise", at), ot_net_name(b, "%s.depthwise_bn", at),
                  (ot_net_window){ .out = inner, .kernel = 3, .stride = stride, .pad = 1, .groups = inner });
    y = ot_net_relu6(b, y, ot_net_name(b, "%s.depthwise_act", at));
    y = conv_norm(b, y, ot_net_name(b, "%s.project", at), ot_net_name(b, "%s.project_bn", at),
                  (ot_net_window){ .out = c, .kernel = 1 });
    return stride == 1 && x.c == c ? ot_net_add(b, x, y, ot_net_name(b, "%s.add", at)) : y;
}

static ot_feature mobilenet(ot_net *b, ot_feature x)
{
    static const struct {
        int expand, c, n, stride;
    } stage[] = {
        { 1, 16, 1, 1 }, { 6, 24, 2, 1 },  { 6, 32, 3, 2 },  { 6, 64, 4, 2 },
        { 6, 96, 3, 1 }, { 6, 160, 3, 2 }, { 6, 320, 1, 1 },
    };
    x = conv_norm(b, x, "stem", "stem_bn", (ot_net_window){ .out = ot_net_scaled(b, 32, 8), .kernel = 3, .pad = 1 });
    x = ot_net_relu6(b, x, "stem_act");
    for (int s = 0, block = 1; s < OT_LEN(stage); s++)
        for (int i = 0; i < stage[s].n; i++, block++)
            x = inverted_residual(b, x, ot_net_name(b, "block%d", block), stage[s].expand,
                                  ot_net_scaled(b, stage[s].c, 8), i == 0 ? stage[s].stride : 1);
    x = conv_norm(b, x, "head", "head_bn", (ot_net_window){ .out = ot_net_scaled(b, 1280, 8), .kernel = 1 });
    x = ot_net_flatten(b, ot_net_global_pool(b, ot_net_relu6(b, x, "head_act"), "avgpool"), "flatten");
    return ot_net_linear(b, x, "classifier", b->o.classes);
}

/* The output has the input's shape, in 0..1; train it with the pictures as their own target. */
static ot_feature autoencoder(ot_net *b, ot_feature x)
{
    int64_t c1 = ot_net_scaled(b, 16, 1), c2 = ot_net_scaled(b, 32, 1), c = x.c;
    if (b->status == OT_OK && (x.h % 4 || x.w % 4))
        b->status = ot_fail(b->err, OT_E_USAGE, "autoencoder: the input is %lldx%lld; both must be multiples of 4",
                            (long long)x.h, (long long)x.w);
    ot_net_window half = { .kernel = 4, .stride = 2, .pad = 1 };
    half.out = c1;
    x = ot_net_relu(b, ot_net_conv(b, x, "encoder1", half), "encoder1_relu");
    half.out = c2;
    x = ot_net_relu(b, ot_net_conv(b, x, "encoder2", half), "encoder2_relu");
    half.out = c1;
    x = ot_net_relu(b, ot_net_deconv(b, x, "decoder1", half), "decoder1_relu");
    half.out = c;
    return ot_net_sigmoid(b, ot_net_deconv(b, x, "decoder2", half), "decoder2_sigmoid");
}

/* ---- the table ------------------------------------------------------------------------ */

#define EXTENT(name, dflt, meaning) { name, dflt, NULL, meaning, .kind = OT_KEY_WHOLE, OT_KEY_FROM(1, OT_NEW_EXTENT_MAX) }
#define OPSET(dflt, least)          { "opset", dflt, NULL, "opset of the file", .kind = OT_KEY_WHOLE, OT_KEY_FROM(least, OT_NEW_OPSET_MAX) }
#define SCALE                       { "scale", "1", NULL, "factor on the number of filters or hidden units", .kind = OT_KEY_NUMBER, .most = OT_NEW_SCALE_MAX, .above = true }

/* --input CxHxW, --classes, --scale, --opset of a network over pictures. */
#define PICTURE(input, classes)                                                                                         \
    { "input", input, NULL, "channels, height and width of the input", .kind = OT_KEY_TEXT, .words = "CxHxW" },         \
    EXTENT("classes", classes, "extent of the output"), SCALE, OPSET("17", OT_NEW_OPSET_MIN)
#define SEQUENCE(tokens, classes, of)                                                                                   \
    EXTENT("input", tokens, "tokens of a sequence"), EXTENT("classes", classes, of), EXTENT("layers", "12", "blocks"),  \
    SCALE, OPSET("20", 20)

static const ot_key small_keys[] = { PICTURE("1x28x28", "10"), OT_KEYS_END };
static const ot_key mlp_keys[] = {
    PICTURE("1x28x28", "10"),
    { "hidden", "128,64", NULL, "units of its hidden layers", .kind = OT_KEY_TEXT, .words = "N,N,..." },
    OT_KEYS_END,
};
static const ot_key colour_keys[] = { PICTURE("3x32x32", "10"), OT_KEYS_END };
static const ot_key large_keys[] = { PICTURE("3x224x224", "1000"), OT_KEYS_END };
static const ot_key gpt2_keys[] = { SEQUENCE("1024", "50257", "words of the vocabulary"), OT_KEYS_END };
static const ot_key bert_keys[] = { SEQUENCE("512", "2", "extent of the output"), OT_KEYS_END };

/* X(name, formula, the input is (N, C H W), keys, meaning) */
#define RECIPES(X) \
    X(lenet, lenet, false, small_keys, "two convolutions and two dense layers") \
    X(mlp, mlp, true, mlp_keys, "dense layers with Relu") \
    X(vgg, vgg, false, colour_keys, "narrow VGG with BatchNormalization") \
    X(resnet18, resnet18, false, colour_keys, "ResNet-18 with a 3x3 stem") \
    X(mobilenet, mobilenet, false, colour_keys, "MobileNetV2, depthwise convolutions") \
    X(autoencoder, autoencoder, false, small_keys, "convolutions down and up again, output as input") \
    X(alexnet, alexnet, false, large_keys, "AlexNet") \
    X(resnet50, resnet50, false, large_keys, "ResNet-50") \
    X(gpt2, ot_recipe_gpt2, false, gpt2_keys, "GPT-2") \
    X(bert, ot_recipe_bert, false, bert_keys, "BERT base")

#define X(name, formula, flat, keys, meaning) static const ot_recipe recipe_##name = { { #name, meaning, keys }, flat, formula };
RECIPES(X)
#undef X

static const ot_entry *const entries[] = {
#define X(name, formula, flat, keys, meaning) &recipe_##name.entry,
    RECIPES(X)
#undef X
        NULL
};

const ot_registry ot_recipes = { "new", "networks that can be made with fresh weights (onnxtrain new KIND -o FILE)",
                                 entries };

const ot_recipe *ot_recipe_find(const char *name)
{
    static const ot_recipe *const list[] = {
#define X(name, formula, flat, keys, meaning) &recipe_##name,
        RECIPES(X)
#undef X
    };
    for (int i = 0; i < OT_LEN(list); i++)
        if (!strcmp(list[i]->entry.name, name)) return list[i];
    return NULL;
}
