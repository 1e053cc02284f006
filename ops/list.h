/* list.h - every operator, one row each, in sections; the order within a section has no meaning.
 *
 * A 1 declares that ops/ref/ (ops/cpu/, ops/cuda/) has a kernel, a 2 under cpu one more with a sample in each vector lane
 * (ot_samples_<Name>).  To add an operator: a row here, ot_op_<Name> and a
 * kernel per 1, without which the program does not link, and test cases ot_cases_<Name> in tests/ops/, without which
 * test_ops fails.  Operators with 0 0 0 are lowered to others. */
#ifndef OT_LIST_H
#define OT_LIST_H

/* ---- element-wise operators of ONNX: each becomes a Map -------------------- */

/* operator            ref cpu cuda */
#define OT_ELEMENTWISE_OPS(X) \
    X(Abs,                   0, 0, 0)      \
    X(Acos,                  0, 0, 0)      \
    X(Acosh,                 0, 0, 0)      \
    X(Add,                   0, 0, 0)      \
    X(And,                   0, 0, 0)      \
    X(Asin,                  0, 0, 0)      \
    X(Asinh,                 0, 0, 0)      \
    X(Atan,                  0, 0, 0)      \
    X(Atanh,                 0, 0, 0)      \
    X(BitShift,              0, 0, 0)      \
    X(BitwiseAnd,            0, 0, 0)      \
    X(BitwiseNot,            0, 0, 0)      \
    X(BitwiseOr,             0, 0, 0)      \
    X(BitwiseXor,            0, 0, 0)      \
    X(Cast,                  0, 0, 0)      \
    X(CastLike,              0, 0, 0)      \
    X(Ceil,                  0, 0, 0)      \
    X(Celu,                  0, 0, 0)      \
    X(Clip,                  0, 0, 0)      \
    X(Cos,                   0, 0, 0)      \
    X(Cosh,                  0, 0, 0)      \
    X(Detach,                0, 0, 0)      \
    X(Div,                   0, 0, 0)      \
    X(Dropout,               0, 0, 0)      \
    X(Elu,                   0, 0, 0)      \
    X(Equal,                 0, 0, 0)      \
    X(Erf,                   0, 0, 0)      \
    X(Exp,                   0, 0, 0)      \
    X(Floor,                 0, 0, 0)      \
    X(Gelu,                  0, 0, 0)      \
    X(Greater,               0, 0, 0)      \
    X(GreaterOrEqual,        0, 0, 0)      \
    X(HardSigmoid,           0, 0, 0)      \
    X(HardSwish,             0, 0, 0)      \
    X(IsInf,                 0, 0, 0)      \
    X(IsNaN,                 0, 0, 0)      \
    X(LeakyRelu,             0, 0, 0)      \
    X(Less,                  0, 0, 0)      \
    X(LessOrEqual,           0, 0, 0)      \
    X(Log,                   0, 0, 0)      \
    X(Max,                   0, 0, 0)      \
    X(Mean,                  0, 0, 0)      \
    X(Min,                   0, 0, 0)      \
    X(Mish,                  0, 0, 0)      \
    X(Mod,                   0, 0, 0)      \
    X(Mul,                   0, 0, 0)      \
    X(Neg,                   0, 0, 0)      \
    X(Not,                   0, 0, 0)      \
    X(Or,                    0, 0, 0)      \
    X(PRelu,                 0, 0, 0)      \
    X(Pow,                   0, 0, 0)      \
    X(Reciprocal,            0, 0, 0)      \
    X(Relu,                  0, 0, 0)      \
    X(Round,                 0, 0, 0)      \
    X(Selu,                  0, 0, 0)      \
    X(Shrink,                0, 0, 0)      \
    X(Sigmoid,               0, 0, 0)      \
    X(Sign,                  0, 0, 0)      \
    X(Sin,                   0, 0, 0)      \
    X(Sinh,                  0, 0, 0)      \
    X(Softplus,              0, 0, 0)      \
    X(Softsign,              0, 0, 0)      \
    X(Sqrt,                  0, 0, 0)      \
    X(Sub,                   0, 0, 0)      \
    X(Sum,                   0, 0, 0)      \
    X(Swish,                 0, 0, 0)      \
    X(Tan,                   0, 0, 0)      \
    X(Tanh,                  0, 0, 0)      \
    X(ThresholdedRelu,       0, 0, 0)      \
    X(Where,                 0, 0, 0)      \
    X(Xor,                   0, 0, 0)

/* ---- movement, shapes, reductions, indexing of ONNX ------------------------ */

/* operator            ref cpu cuda */
#define OT_MOVE_OPS(X) \
    X(AffineGrid,            0, 0, 0)      \
    X(ArgMax,                0, 0, 0)      \
    X(ArgMin,                0, 0, 0)      \
    X(BitCast,               0, 0, 0)      \
    X(CenterCropPad,         0, 0, 0)      \
    X(Col2Im,                0, 0, 0)      \
    X(Compress,              0, 0, 0)      \
    X(Concat,                0, 0, 0)      \
    X(ConcatFromSequence,    0, 0, 0)      \
    X(Constant,              0, 0, 0)      \
    X(ConstantOfShape,       0, 0, 0)      \
    X(CumProd,               0, 0, 0)      \
    X(CumSum,                0, 0, 0)      \
    X(DepthToSpace,          0, 0, 0)      \
    X(Einsum,                0, 0, 0)      \
    X(Expand,                0, 0, 0)      \
    X(EyeLike,               0, 0, 0)      \
    X(Flatten,               0, 0, 0)      \
    X(Gather,                0, 0, 0)      \
    X(GatherElements,        0, 0, 0)      \
    X(GatherND,              0, 0, 0)      \
    X(GridSample,            0, 0, 0)      \
    X(Identity,              0, 0, 0)      \
    X(If,                    0, 0, 0)      \
    X(ImageDecoder,          0, 0, 0)      \
    X(Loop,                 0, 0, 0)      \
    X(NonMaxSuppression,     0, 0, 0)      \
    X(NonZero,               0, 0, 0)      \
    X(OneHot,                0, 0, 0)      \
    X(Optional,              0, 0, 0)      \
    X(OptionalGetElement,    0, 0, 0)      \
    X(OptionalHasElement,    0, 0, 0)      \
    X(Pad,                   0, 0, 0)      \
    X(Range,                 0, 0, 0)      \
    X(ReduceL1,              0, 0, 0)      \
    X(ReduceL2,              0, 0, 0)      \
    X(ReduceLogSum,          0, 0, 0)      \
    X(ReduceLogSumExp,       0, 0, 0)      \
    X(ReduceMax,             0, 0, 0)      \
    X(ReduceMean,            0, 0, 0)      \
    X(ReduceMin,             0, 0, 0)      \
    X(ReduceProd,            0, 0, 0)      \
    X(ReduceSum,             0, 0, 0)      \
    X(ReduceSumSquare,       0, 0, 0)      \
    X(RegexFullMatch,          0, 0, 0)      \
    X(Reshape,               0, 0, 0)      \
    X(Resize,                0, 0, 0)      \
    X(ReverseSequence,       0, 0, 0)      \
    X(Scan,                 0, 0, 0)      \
    X(ScatterElements,       0, 0, 0)      \
    X(ScatterND,             0, 0, 0)      \
    X(SequenceAt,            0, 0, 0)      \
    X(SequenceConstruct,     0, 0, 0)      \
    X(SequenceEmpty,         0, 0, 0)      \
    X(SequenceErase,         0, 0, 0)      \
    X(SequenceInsert,        0, 0, 0)      \
    X(SequenceLength,        0, 0, 0)      \
    X(SequenceMap,           0, 0, 0)      \
    X(Shape,                 0, 0, 0)      \
    X(Size,                  0, 0, 0)      \
    X(Slice,                 0, 0, 0)      \
    X(SpaceToDepth,          0, 0, 0)      \
    X(Split,                 0, 0, 0)      \
    X(SplitToSequence,       0, 0, 0)      \
    X(Squeeze,               0, 0, 0)      \
    X(TensorScatter,         0, 0, 0)      \
    X(StringConcat,            0, 0, 0)      \
    X(StringNormalizer,        0, 0, 0)      \
    X(StringSplit,             0, 0, 0)      \
    X(Tile,                  0, 0, 0)      \
    X(TopK,                  0, 0, 0)      \
    X(Transpose,             0, 0, 0)      \
    X(Trilu,                 0, 0, 0)      \
    X(Unique,                0, 0, 0)      \
    X(Unsqueeze,             0, 0, 0)

/* ---- linear algebra, convolution, pooling, norms, softmax, losses of ONNX --- */

/* operator            ref cpu cuda */
#define OT_NN_OPS(X) \
    X(Attention,                 0, 0, 0)    \
    X(AveragePool,               0, 0, 0)    \
    X(BatchNormalization,        0, 0, 0)    \
    X(Bernoulli,                 0, 0, 0)    \
    X(BlackmanWindow,            0, 0, 0)    \
    X(CausalConvWithState,       0, 0, 0)    \
    X(Conv,                      0, 0, 0)    \
    X(ConvInteger,               0, 0, 0)    \
    X(ConvTranspose,             0, 0, 0)    \
    X(DeformConv,                0, 0, 0)    \
    X(DequantizeLinear,          0, 0, 0)    \
    X(Det,                       0, 0, 0)    \
    X(DFT,                       0, 0, 0)    \
    X(DynamicQuantizeLinear,     0, 0, 0)    \
    X(FlexAttention,             0, 0, 0)    \
    X(GRU,                       0, 0, 0)    \
    X(Gemm,                      0, 0, 0)    \
    X(GlobalAveragePool,         0, 0, 0)    \
    X(GlobalLpPool,              0, 0, 0)    \
    X(GlobalMaxPool,             0, 0, 0)    \
    X(GroupNormalization,        0, 0, 0)    \
    X(HammingWindow,             0, 0, 0)    \
    X(HannWindow,                0, 0, 0)    \
    X(Hardmax,                   0, 0, 0)    \
    X(InstanceNormalization,     0, 0, 0)    \
    X(LSTM,                      0, 0, 0)    \
    X(LayerNormalization,        0, 0, 0)    \
    X(LinearAttention,           0, 0, 0)    \
    X(LogSoftmax,                0, 0, 0)    \
    X(LpNormalization,           0, 0, 0)    \
    X(LpPool,                    0, 0, 0)    \
    X(LRN,                       0, 0, 0)    \
    X(MatMul,                    0, 0, 0)    \
    X(MatMulInteger,             0, 0, 0)    \
    X(MaxPool,                   0, 0, 0)    \
    X(MaxRoiPool,                0, 0, 0)    \
    X(MaxUnpool,                 0, 0, 0)    \
    X(MelWeightMatrix,           0, 0, 0)    \
    X(Multinomial,               0, 0, 0)    \
    X(MeanVarianceNormalization, 0, 0, 0)    \
    X(NegativeLogLikelihoodLoss, 0, 0, 0)    \
    X(QuantizeLinear,            0, 0, 0)    \
    X(RMSNormalization,          0, 0, 0)    \
    X(RNN,                       0, 0, 0)    \
    X(RandomNormal,              0, 0, 0)    \
    X(RandomNormalLike,          0, 0, 0)    \
    X(RandomUniform,             0, 0, 0)    \
    X(RandomUniformLike,         0, 0, 0)    \
    X(RoiAlign,                  0, 0, 0)    \
    X(RotaryEmbedding,           0, 0, 0)    \
    X(Softmax,                   0, 0, 0)    \
    X(SoftmaxCrossEntropyLoss,   0, 0, 0)    \
    X(STFT,                      0, 0, 0)    \
    X(SwiGLU,                    0, 0, 0)    \
    X(TfIdfVectorizer,           0, 0, 0)

/* ---- kernels: what a backend implements ------------------------------------ */

/* operator            ref cpu cuda */
#define OT_MAP_KERNELS(X) \
    X(Gradient,              0, 0, 0)      \
    X(Map,                   1, 1, 1)      \
    X(StringEqual,           1, 0, 0)      \
    X(StringTake,            1, 0, 0)      \
    X(Unsupported,           0, 0, 0)

/* operator            ref cpu cuda */
#define OT_MOVE_KERNELS(X) \
    X(TopKIndex,                   1, 1, 1)      \
    X(Bits,                  1, 0, 1)      \
    X(Copy,                  1, 1, 1)      \
    X(CopyDx,               1, 1, 1)      \
    X(PrefixSum,              1, 0, 1)      \
    X(Resample,                1, 1, 1)      \
    X(FlatIndex,                1, 0, 1)      \
    X(Scatter,                   1, 1, 1)      \
    X(Reduce,                1, 1, 1)      \
    X(Take,                  1, 1, 1)      \
    X(TakeDx,               1, 1, 1)      \
    X(View,                  1, 0, 1)

/* operator            ref cpu cuda */
#define OT_NN_KERNELS(X) \
    X(FusedAttention,                    1, 1, 1)    \
    X(FusedAttentionDx,                  1, 1, 1)    \
    X(BatchNorm,                 1, 1, 1)    \
    X(BatchNormDx,               1, 1, 1)    \
    X(Convolve,                  1, 2, 1)    \
    X(ConvolveDw,                1, 2, 1)    \
    X(ConvolveDx,                1, 2, 1)    \
    X(CrossEntropy,              1, 1, 1)    \
    X(CrossEntropyDx,            1, 1, 1)    \
    X(Fused,                     1, 1, 1)    \
    X(Dot,                       1, 1, 1)    \
    X(PoolAvg,                   1, 1, 1)    \
    X(PoolAvgDx,                 1, 1, 1)    \
    X(PoolMax,                   1, 1, 1)    \
    X(PoolMaxDx,                 1, 1, 1)    \
    X(LayerNorm,                   1, 1, 1)    \
    X(LayerNormDx,                 1, 1, 1)    \
    X(Recurrent,                 1, 1, 0)    \
    X(RecurrentDx,               1, 1, 0)    \
    X(SoftmaxAxis,               1, 1, 1)    \
    X(SoftmaxAxisDx,             1, 1, 1)

#define OT_ONNX_OPS(X) OT_ELEMENTWISE_OPS(X) OT_MOVE_OPS(X) OT_NN_OPS(X)
#define OT_KERNEL_OPS(X) OT_MAP_KERNELS(X) OT_MOVE_KERNELS(X) OT_NN_KERNELS(X)
#define OT_OPS(X) OT_ONNX_OPS(X) OT_KERNEL_OPS(X)

#endif
