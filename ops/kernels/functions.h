/* functions.h - every element-wise formula, one row each, for every backend.
 *
 * R receives A (passed through) and:
 *   name   the opcode is OT_FN_<name>; its derivatives OT_FN_<name>_da, _db, _dc
 *   kinds  the operand classes, and the class of the result:
 *          F floats · I integers (and bool as 0 or 1) · N every number
 *          C every number, result bool · E floats, result bool
 *   y      the formula, over   a b c  the operands   p q  the parameters (double)   T  the type
 *   da, db, dc   D(reads, formula): the derivative times g, over g (dL/dy), a b c, y, p q, T.
 *          `reads` is a sum of A_ B_ C_ Y_: what the formula needs besides g.
 *          G: g itself.  Z: zero everywhere, no gradient flows.  _: the row has no such operand.
 * The text is C99 with <tgmath.h> and CUDA C alike.  Branch-free where possible, so that it vectorises; fmax, fmin and
 * calls without a vector version are avoided (ops/README.md).
 *
 * Kinks and ties: |x|' = 0 and Relu' = 0 at 0; Relu6' = 0 at 0 and 6; Clip' = 0 at its bounds, or 1 there with p = 1, as fake
 * quantization has it; Log' and Log1p' of g = 0 are 0; Max and Min give half to each of two equal operands; Pow's exponent gets 0
 * if x = 0 and the exponent is not negative; Quantize is straight-through: 1 where it does not clip. */
#ifndef OT_FUNCTIONS_H
#define OT_FUNCTIONS_H

/*   name        kinds y                 da, db, dc                                         */
#define OT_FNS_ARITHMETIC(R, A) \
    R(A, Copy,       N, a,                   G, _, _)                                              \
    R(A, Detach,     N, a,                   Z, _, _)                                              \
    R(A, Imm,        N, (T)p,                _, _, _)                                              \
    R(A, Add,        N, a + b,               G, G, _)                                              \
    R(A, Sub,        N, a - b,               G, D(0, -g), _)                                       \
    R(A, Mul,        N, a * b,               D(B_, g * b), D(A_, g * a), _)                        \
    R(A, Div,        F, a / b,               D(B_, g / b), D(B_ | Y_, -g * y / b), _)              \
    R(A, IDiv,       I, OT_IDIV(a, b),       Z, Z, _)                                              \
    R(A, FMod,       F, fmod(a, b),          G, D(A_ | B_, -g * trunc(a / b)), _)                  \
    R(A, FloorMod,   F, a - b * floor(a / b), G, D(A_ | B_, -g * floor(a / b)), _)                 \
    R(A, IRem,       I, OT_IREM(a, b),       Z, Z, _)                                              \
    R(A, IMod,       I, OT_IMOD(a, b),       Z, Z, _)                                              \
    R(A, Neg,        N, -a,                  D(0, -g), _, _)                                       \
    R(A, Abs,        F, fabs(a),             D(A_, a > 0 ? g : a < 0 ? -g : (T)0), _, _)           \
    R(A, IAbs,       I, a < 0 ? -a : a,      Z, _, _)                                              \
    R(A, Sign,       N, OT_SIGN(a),          Z, _, _)                                              \
    R(A, Square,     N, a * a,               D(A_, (T)2 * g * a), _, _)                            \
    R(A, Cube,       N, a * a * a,           D(A_, (T)3 * g * a * a), _, _)                        \
    R(A, Sqrt,       F, sqrt(a),             D(Y_, g / ((T)2 * y)), _, _)                          \
    R(A, Rsqrt,      F, (T)1 / sqrt(a),      D(Y_, (T)-0.5 * g * y * y * y), _, _)                 \
    R(A, Reciprocal, F, (T)1 / a,            D(Y_, -g * y * y), _, _)                              \
    R(A, Pow,        F, pow(a, b),           D(A_ | B_, b == 0 ? (T)0 : g * b * pow(a, b - (T)1)), \
      D(A_ | B_ | Y_, a == 0 && b >= 0 ? (T)0 : g * y * log(a)), _)                                \
    R(A, PowP,       F, pow(a, (T)p),        D(A_, g * (T)p * pow(a, (T)(p - 1))), _, _)           \
    R(A, IPow,       I, OT_IPOW(a, b),       Z, Z, _)                                              \
    R(A, Exp,        F, exp(a),              D(Y_, g * y), _, _)                                   \
    R(A, Expm1,      F, expm1(a),            D(Y_, g * (y + (T)1)), _, _)                          \
    R(A, Log,        F, log(a),              D(A_, g == 0 ? (T)0 : g / a), _, _)                   \
    R(A, Log1p,      F, log1p(a),            D(A_, g == 0 ? (T)0 : g / ((T)1 + a)), _, _)          \
    R(A, Floor,      F, floor(a),            Z, _, _)                                              \
    R(A, Ceil,       F, ceil(a),             Z, _, _)                                              \
    R(A, Round,      F, rint(a),             Z, _, _)                                              \
    R(A, Trunc,      F, trunc(a),            Z, _, _)                                              \
    R(A, Quantize,   F, OT_CLIP(rint(a) + b, (T)p, (T)q),                                          \
      D(A_ | B_, rint(a) + b >= (T)p && rint(a) + b <= (T)q ? g : (T)0), Z, _)                     \
    R(A, Max,        N, a > b || a != a ? a : b, OT_WINS(a, b), OT_WINS(b, a), _)                  \
    R(A, Min,        N, a < b || a != a ? a : b, OT_WINS(b, a), OT_WINS(a, b), _)                  \
    R(A, Clip,       N, OT_CLIP(a, b, c),                                                          \
      D(A_ | B_ | C_, (p != 0 ? a >= b && a <= c : a > b && a < c) ? g : (T)0),                    \
      D(A_ | B_ | C_, a < b && b < c ? g : (T)0),                                                  \
      D(A_ | B_ | C_, a > c || b > c ? g : (T)0))                                                  \
    R(A, Where,      N, a != 0 ? b : c,      Z, D(A_, a != 0 ? g : (T)0), D(A_, a != 0 ? (T)0 : g))

#define OT_FNS_TRIGONOMETRY(R, A)                                                                 \
    R(A, Sin,        F, sin(a),              D(A_, g * cos(a)), _, _)                              \
    R(A, Cos,        F, cos(a),              D(A_, -g * sin(a)), _, _)                             \
    R(A, Tan,        F, tan(a),              D(Y_, g * ((T)1 + y * y)), _, _)                      \
    R(A, Asin,       F, asin(a),             D(A_, g / sqrt((T)1 - a * a)), _, _)                  \
    R(A, Acos,       F, acos(a),             D(A_, -g / sqrt((T)1 - a * a)), _, _)                 \
    R(A, Atan,       F, atan(a),             D(A_, g / ((T)1 + a * a)), _, _)                      \
    R(A, Sinh,       F, sinh(a),             D(A_, g * cosh(a)), _, _)                             \
    R(A, Cosh,       F, cosh(a),             D(A_, g * sinh(a)), _, _)                             \
    R(A, Asinh,      F, asinh(a),            D(A_, g / sqrt(a * a + (T)1)), _, _)                  \
    R(A, Acosh,      F, acosh(a),            D(A_, g / sqrt(a * a - (T)1)), _, _)                  \
    R(A, Atanh,      F, atanh(a),            D(A_, g / ((T)1 - a * a)), _, _)

#define OT_FNS_ACTIVATION(R, A)                                                                   \
    R(A, Relu,       N, a <= 0 ? (T)0 : a,   D(Y_, y <= 0 ? (T)0 : g), _, _)                       \
    R(A, Relu6,      N, a <= 0 ? (T)0 : a >= 6 ? (T)6 : a, D(Y_, y <= 0 ? (T)0 : y >= 6 ? (T)0 : g), _, _) \
    R(A, LeakyRelu,  F, a > 0 ? a : (T)p * a, D(A_, a > 0 ? g : (T)p * g), _, _)                   \
    R(A, PRelu,      N, a > 0 ? a : a * b,   D(A_ | B_, a > 0 ? g : g * b),                        \
      D(A_, a > 0 ? (T)0 : g * a), _)                                                              \
    R(A, ThresholdedRelu, F, a <= (T)p ? (T)0 : a, D(A_, a > (T)p ? g : (T)0), _, _)               \
    R(A, Elu,        F, a > 0 ? a : (T)p * expm1(a), D(A_, a > 0 ? g : g * (T)p * exp(a)), _, _)   \
    R(A, Celu,       F, a > 0 ? a : (T)p * expm1(a / (T)p), D(A_, a > 0 ? g : g * exp(a / (T)p)), _, _) \
    R(A, Selu,       F, (T)q * (a > 0 ? a : (T)p * expm1(a)),                                      \
      D(A_, g * (T)q * (a > 0 ? (T)1 : (T)p * exp(a))), _, _)                                      \
    R(A, Erf,        F, erf(a),              D(A_, g * (T)1.1283791670955126 * exp(-a * a)), _, _) \
    R(A, Tanh,       F, tanh(a),             D(Y_, g * ((T)1 - y * y)), _, _)                      \
    R(A, Sigmoid,    F, OT_SIGMOID(a),       D(Y_, g * y * ((T)1 - y)), _, _)                      \
    R(A, HardSigmoid, F, OT_CLIP((T)p * a + (T)q, (T)0, (T)1),                                     \
      D(A_, (T)p * a + (T)q > 0 && (T)p * a + (T)q < 1 ? g * (T)p : (T)0), _, _)                   \
    R(A, HardSwish,  F, a * OT_CLIP(a * (T)0.16666666666666666 + (T)0.5, (T)0, (T)1),              \
      D(A_, a <= -3 ? (T)0 : a >= 3 ? g : g * (a * (T)0.3333333333333333 + (T)0.5)), _, _)         \
    R(A, Gelu,       F, a * OT_PHI(a),                                                             \
      D(A_, g * (OT_PHI(a) + a * (T)0.3989422804014327 * exp((T)-0.5 * a * a))), _, _)             \
    R(A, GeluTanh,   F, (T)0.5 * a * ((T)1 + OT_GELU_TANH(a)),                                     \
      D(A_, g * (T)0.5 * ((T)1 + OT_GELU_TANH(a) + a * ((T)1 - OT_GELU_TANH(a) * OT_GELU_TANH(a))  \
        * (T)0.7978845608028654 * ((T)1 + (T)0.134145 * a * a))), _, _)                            \
    R(A, Softplus,   F, OT_SOFTPLUS(a),      D(A_, g * OT_SIGMOID(a)), _, _)                       \
    R(A, Softsign,   F, a / ((T)1 + fabs(a)), D(A_, g / (((T)1 + fabs(a)) * ((T)1 + fabs(a)))), _, _) \
    R(A, Swish,      F, a * OT_SIGMOID((T)p * a),                                                  \
      D(A_, g * OT_SIGMOID((T)p * a) * ((T)1 + (T)p * a * ((T)1 - OT_SIGMOID((T)p * a)))), _, _)   \
    R(A, Mish,       F, a * OT_TANH_SOFTPLUS(a),                                                   \
      D(A_, g * (OT_TANH_SOFTPLUS(a) + a * OT_SIGMOID(a) * ((T)1 - OT_TANH_SOFTPLUS(a)) *          \
        ((T)1 + OT_TANH_SOFTPLUS(a)))), _, _)                                                      \
    R(A, Shrink,     F, a < (T)-p ? a + (T)q : a > (T)p ? a - (T)q : (T)0,                         \
      D(A_, a < (T)-p || a > (T)p ? g : (T)0), _, _)

#define OT_FNS_TRUTH(R, A)                                                                        \
    R(A, Equal,      C, a == b ? (T)1 : (T)0, Z, Z, _)                                             \
    R(A, NotEqual,   C, a != b ? (T)1 : (T)0, Z, Z, _)                                             \
    R(A, Less,       C, a < b ? (T)1 : (T)0,  Z, Z, _)                                             \
    R(A, LessOrEqual, C, a <= b ? (T)1 : (T)0, Z, Z, _)                                            \
    R(A, Greater,    C, a > b ? (T)1 : (T)0,  Z, Z, _)                                             \
    R(A, GreaterOrEqual, C, a >= b ? (T)1 : (T)0, Z, Z, _)                                         \
    R(A, Not,        C, a == 0 ? (T)1 : (T)0, Z, _, _)                                             \
    R(A, And,        C, ((a != 0) & (b != 0)) ? (T)1 : (T)0, Z, Z, _)                                \
    R(A, Or,         C, ((a != 0) | (b != 0)) ? (T)1 : (T)0, Z, Z, _)                                \
    R(A, Xor,        C, ((a != 0) ^ (b != 0)) ? (T)1 : (T)0, Z, Z, _)                                \
    R(A, IsNaN,      E, a != a ? (T)1 : (T)0, Z, _, _)                                             \
    R(A, IsInf,      E, (((p != 0) & (a == (T)INFINITY)) | ((q != 0) & (a == (T)-INFINITY)))       \
      ? (T)1 : (T)0, Z, _, _)                                                                      \
    R(A, BitAnd,     I, a & b,               Z, Z, _)                                              \
    R(A, BitOr,      I, a | b,               Z, Z, _)                                              \
    R(A, BitXor,     I, a ^ b,               Z, Z, _)                                              \
    R(A, BitNot,     I, ~a,                  Z, _, _)                                              \
    R(A, ShiftLeft,  I, (uint64_t)b > 63 ? (T)0 : (T)((uint64_t)a << ((uint64_t)b & 63)), Z, Z, _) \
    R(A, ShiftRight, I, (uint64_t)b > 63 ? (T)0 : (T)(a >> ((uint64_t)b & 63)), Z, Z, _)

/* Element terms of losses: z logits, t targets, d differences. */
#define OT_FNS_LOSS(R, A)                                                                         \
    R(A, BceWithLogits, F, OT_SOFTPLUS(a) - a * b, D(A_ | B_, g * (OT_SIGMOID(a) - b)),            \
      D(A_, -g * a), _)                                                                            \
    R(A, Bce,        F, -(b * OT_LOG100(a) + ((T)1 - b) * OT_LOG100((T)1 - a)),                    \
      D(A_ | B_, g * (a - b) / (a * ((T)1 - a) > (T)1e-12 ? a * ((T)1 - a) : (T)1e-12)),           \
      D(A_, g * (OT_LOG100((T)1 - a) - OT_LOG100(a))), _)                                          \
    R(A, Huber,      F, fabs(a) <= (T)p ? (T)0.5 * a * a : (T)p * (fabs(a) - (T)0.5 * (T)p),       \
      D(A_, g * OT_CLIP(a, (T)-p, (T)p)), _, _)                                                    \
    R(A, SmoothL1,   F, fabs(a) < (T)p ? (T)0.5 * a * a / (T)p : fabs(a) - (T)0.5 * (T)p,          \
      D(A_, fabs(a) < (T)p ? g * a / (T)p : g * OT_SIGN(a)), _, _)                                 \
    R(A, KlTerm,     F, b > 0 ? b * (log(b) - a) : (T)0, D(B_, -g * b),                            \
      D(A_ | B_, b > 0 ? g * (log(b) + (T)1 - a) : (T)0), _)

#define OT_FNS(R, A)                                                                              \
    OT_FNS_ARITHMETIC(R, A) OT_FNS_TRIGONOMETRY(R, A) OT_FNS_ACTIVATION(R, A)                   \
    OT_FNS_TRUTH(R, A) OT_FNS_LOSS(R, A)

/* Functions that are more than a formula of their operands:
 *   Convert  a, of any class, into the result's class; p: the ot_dtype that it is first rounded to, 0: none
 *   Index    the coordinate along axis p of the Map's shape
 *   Random   uniform in [0,1); a: key, b: counter (both u64); p: stream.  Depends on the logical position of the
 *            element: the same in every layout and with every number of threads */
#define OT_FNS_SPECIAL(S, A) \
    S(A, Convert, 1) S(A, Index, 0) S(A, Random, 2)

/* ---- pieces of formulas ----------------------------------------------------- */

#define OT_SIGN(a) ((a) > 0 ? (T)1 : (a) < 0 ? (T)-1 : (T)0)
#define OT_CLIP(a, b, c) (((a) < (b) ? (b) : (a)) > (c) ? (c) : ((a) < (b) ? (b) : (a)))
#define OT_WINS(a, b) D(A_ | B_, a > b ? g : a == b ? g / (T)2 : (T)0)

/* The exp of a large -a is infinite, and the quotient 0, as it should be; that of OT_SOFTPLUS is of a number <= 0. */
#define OT_SIGMOID(a) ((T)1 / ((T)1 + exp(-(a))))
#define OT_SOFTPLUS(a) (((a) <= 0 ? (T)0 : (a)) + log1p(exp(-fabs(a))))
#define OT_PHI(a) ((T)0.5 + (T)0.5 * erf((a) * (T)0.7071067811865476))
#define OT_GELU_TANH(a) tanh((T)0.7978845608028654 * (a + (T)0.044715 * a * a * a))
#define OT_LOG100(a) (log(a) < -100 ? (T)-100 : log(a))

/* tanh(softplus(a)) with e = exp(-|a|): one exp, no overflow, no cancellation. */
#define OT_TANH_SOFTPLUS(a)                                                                        \
    ((a) > 0 ? ((T)1 + (T)2 * exp(-fabs(a))) /                                                     \
               ((T)1 + (T)2 * exp(-fabs(a)) + (T)2 * exp(-fabs(a)) * exp(-fabs(a)))                \
             : exp(-fabs(a)) * (exp(-fabs(a)) + (T)2) /                                            \
               (exp(-fabs(a)) * (exp(-fabs(a)) + (T)2) + (T)2))

/* Integers.  0 for a division by 0; the quotient of the smallest number and -1 wraps. */
#define OT_MINUS_ONE(b) ((T)-1 < (T)0 && (b) == (T)-1)
#define OT_IDIV(a, b) ((b) == 0 ? (T)0 : OT_MINUS_ONE(b) ? -(a) : (a) / (b))
#define OT_IREM(a, b) ((b) == 0 || OT_MINUS_ONE(b) ? (T)0 : (a) % (b))
#define OT_IMOD(a, b) ((b) == 0 || OT_MINUS_ONE(b) ? (T)0                                          \
                       : (a) % (b) != 0 && ((a) < 0) != ((b) < 0) ? (a) % (b) + (b) : (a) % (b))
#define OT_IPOW(a, b) ((T)ot_ipow((uint64_t)(a), (uint64_t)(b), (T)-1 < (T)0))

#endif
