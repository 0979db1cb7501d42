/* Operations on elements, each as a loop over rows and columns; included once for each set of instructions. */

#if defined(__clang__) /* which unrolls short loops before it looks for vectors */
#define SIMD _Pragma("clang loop vectorize(assume_safety) unroll(disable)")
#else
#define SIMD _Pragma("omp simd")
#endif

/* Two functions, name_set and name_add, that give out expression of a, b and x. What is left of a row past its last
   whole vector is computed with the columns before it, as a vector too: first, since out may be a or b, and written
   last. */
#define LOOP(name, assign, A, B, expression)                                       \
    static void name(const View *view) {                                           \
        const float x = view->x;                                                   \
        const ptrdiff_t rows = view->rows, w = view->w, left = w % LANES;          \
        ptrdiff_t r, j;                                                            \
        int i;                                                                     \
        (void)x;                                                                   \
        for (r = 0; r < rows; r++) {                                               \
            float *out = view->out + r * view->ldo, rest[LANES];                   \
            A(const float *row_a = view->a + r * view->lda;)                       \
            B(const float *row_b = view->b + r * view->ldb;)                       \
            if (w < LANES) {                                                       \
                SIMD for (j = 0; j < w; j++) {                                     \
                    A(const float a = row_a[j];)                                   \
                    B(const float b = row_b[j];)                                   \
                    out[j] assign expression;                                      \
                }                                                                  \
                continue;                                                          \
            }                                                                      \
            if (left > 0) {                                                        \
                memcpy(rest, out + w - LANES, sizeof rest);                        \
                SIMD for (i = 0; i < LANES; i++) {                                 \
                    A(const float a = row_a[w - LANES + i];)                       \
                    B(const float b = row_b[w - LANES + i];)                       \
                    rest[i] assign expression;                                     \
                }                                                                  \
            }                                                                      \
            for (j = 0; j < w - left; j += LANES) {                                \
                SIMD for (i = 0; i < LANES; i++) {                                 \
                    A(const float a = row_a[j + i];)                               \
                    B(const float b = row_b[j + i];)                               \
                    out[j + i] assign expression;                                  \
                }                                                                  \
            }                                                                      \
            if (left > 0) memcpy(out + w - LANES, rest, sizeof rest);              \
        }                                                                          \
    }
#define KEEP(text) text
#define DROP(text)
#define BOTH(name, A, B, expression)          \
    LOOP(name##_set, =, A, B, (expression))   \
    LOOP(name##_add, +=, A, B, (expression))

#define NULLARY(name, expression) BOTH(name, DROP, DROP, expression)
#define UNARY(name, expression) BOTH(name, KEEP, DROP, expression)
#define BINARY(name, expression) BOTH(name, KEEP, KEEP, expression)

#define ELEMENTS                                                                   \
    UNARY(COPY, a)                                                                 \
    UNARY(NEG, -a)                                                                 \
    UNARY(SIGMOID, sigmoid_of(a))                                                  \
    UNARY(TANH, tanh_of(a))                                                        \
    UNARY(RELU, a < 0.0f ? 0.0f : a)                                               \
    UNARY(EXP, exp_of(a))                                                          \
    UNARY(LOG, log_of(a))                                                          \
    UNARY(SQRT, sqrtf(a))                                                          \
    UNARY(SQUARE, a *a)                                                            \
    UNARY(ABS, fabsf(a))                                                           \
    UNARY(RECIPROCAL, 1.0f / a)                                                    \
    UNARY(SOFTRELU, softrelu_of(a))                                                \
    UNARY(SIGN, a > 0.0f ? 1.0f : (a < 0.0f ? -1.0f : 0.0f))                       \
    UNARY(POSITIVE, a > 0.0f ? a : 0.0f) /* RELU that makes 0 of a NaN */          \
    BINARY(ADD, a + b)                                                             \
    BINARY(SUB, a - b)                                                             \
    BINARY(MUL, a *b)                                                              \
    BINARY(DIV, a / b)                                                             \
    BINARY(MAX, a > b || a != a ? a : b)                                           \
    BINARY(MIN, a < b || a != a ? a : b)                                           \
    BINARY(GE, a >= b ? 1.0f : 0.0f)                                               \
    BINARY(LT, a < b ? 1.0f : 0.0f)                                                \
    BINARY(XLOGY, a == 0.0f && b == b ? 0.0f : a *log_of(b))                       \
    UNARY(ADDS, a + x)                                                             \
    UNARY(MULS, a *x)                                                              \
    UNARY(RSUBS, x - a)                                                            \
    UNARY(RDIVS, x / a)                                                            \
    UNARY(MAXS, a > x || a != a ? a : x)                                           \
    UNARY(MINS, a < x || a != a ? a : x)                                           \
    NULLARY(FILL, x)                                                               \
    BINARY(DSIGMOID, a *b *(1.0f - b))                                             \
    BINARY(DTANH, a *((1.0f - b) * (1.0f + b)))                                    \
    BINARY(DRELU, b <= 0.0f ? 0.0f : (b > 0.0f ? a : a *b))                        \
    UNARY(DIVW, a / x) /* x is the row's */

ELEMENTS

#undef UNARY
#undef BINARY
#undef NULLARY
#define UNARY(name, expression) [OP_##name] = {name##_set, name##_add},
#define BINARY(name, expression) UNARY(name, expression)
#define NULLARY(name, expression) UNARY(name, expression)
