/* rows.h - every element-wise formula, one row each, for every backend.
 *
 * R receives A (passed through) and:
 *   name   the opcode is OT_ROW_<name>
 *   kinds  F floats only, N every number, I integers (and bool as 0 or 1) only
 *   y      the formula, over   a b c  the operands   p q  the parameters (double)   T  the type
 *   da, db, dc   D(reads, formula): the derivative times g, over g (dL/dy), a b c, y, p q, T.
 *          `reads` is a sum of A_ B_ C_ Y_: what the formula needs besides g.
 *          Z: zero by nature, no gradient flows.  _: the row has no such operand.
 * The text is C99 with <tgmath.h> and CUDA C alike.  Branch-free where it can be, so that it
 * vectorises; fmax, fmin and calls without a vector version are avoided (ops/README.md). */
#ifndef OT_ROWS_H
#define OT_ROWS_H

#define OT_ROWS(R, A)                                                                              \
    /*   name      kinds y                       da                  db                  dc     */ \
    R(A, Add,      N, a + b,                     D(0, g),            D(0, g),            _)        \
    R(A, Mul,      N, a * b,                     D(B_, g * b),       D(A_, g * a),       _)        \
    R(A, Relu,     N, a > 0 ? a : (T)0,          D(Y_, y > 0 ? g : (T)0), _,             _)

#endif
