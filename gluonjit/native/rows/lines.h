/* Operations along a row; included once for each set of instructions. Sums run in as many parts as a vector has. */

static inline float sum_of(const float *a, ptrdiff_t w) {
    float sum = 0.0f;
    ptrdiff_t j;
    _Pragma("omp simd reduction(+ : sum)") for (j = 0; j < w; j++) sum += a[j];
    return sum;
}

static inline float largest_of(const float *a, ptrdiff_t w) {
    float largest = -INFINITE;
    ptrdiff_t j;
    _Pragma("omp simd reduction(max : largest)") for (j = 0; j < w; j++) largest = a[j] > largest ? a[j] : largest;
    return largest;
}

/* Sum of e^(a - largest). */
static inline float exponentials(const float *a, ptrdiff_t w, float largest) {
    float sum = 0.0f;
    ptrdiff_t j;
    _Pragma("omp simd reduction(+ : sum)") for (j = 0; j < w; j++) sum += exp_of(a[j] - largest);
    return sum;
}

/* Functions name_set and name_add: prepare for a row, then expression of its columns. */
#define LINE(name, assign, prepare, expression)                   \
    static void name(const View *view) {                          \
        const ptrdiff_t w = view->w;                              \
        ptrdiff_t r, j;                                           \
        for (r = 0; r < view->rows; r++) {                        \
            float *out = view->out + r * view->ldo;               \
            const float *a = view->a + r * view->lda;             \
            const float *b = view->b + r * view->ldb;             \
            prepare;                                              \
            (void)b;                                              \
            SIMD for (j = 0; j < w; j++) out[j] assign expression; \
        }                                                         \
    }
#define LINES(name, prepare, expression)      \
    LINE(name##_set, =, prepare, (expression)) \
    LINE(name##_add, +=, prepare, (expression))

/* A number for each row. */
#define NUMBER(name, assign, expression)                                                                 \
    static void name(const View *view) {                                                                 \
        ptrdiff_t r;                                                                                     \
        for (r = 0; r < view->rows; r++)                                                                 \
            view->out[r * view->ldo] assign expression(view->a + r * view->lda, view->w);                \
    }
#define NUMBERS(name, expression)         \
    NUMBER(name##_set, =, expression)     \
    NUMBER(name##_add, +=, expression)

static inline float product_of(const float *a, const float *b, ptrdiff_t w) {
    float sum = 0.0f;
    ptrdiff_t j;
    _Pragma("omp simd reduction(+ : sum)") for (j = 0; j < w; j++) sum += a[j] * b[j];
    return sum;
}

/* The largest, or NaN where there is one. */
static inline float maximum_of(const float *a, ptrdiff_t w) {
    int strange = 0;
    ptrdiff_t j;
    _Pragma("omp simd reduction(+ : strange)") for (j = 0; j < w; j++) strange += a[j] != a[j];
    return strange ? NOT_A_NUMBER : largest_of(a, w);
}

LINES(LOGSOFTMAX, const float largest = largest_of(a, w); const float whole = log_of(exponentials(a, w, largest)),
      (a[j] - largest) - whole)
LINES(DLOGSOFTMAX, const float sum = sum_of(a, w), a[j] - exp_of(b[j]) * sum)
LINES(SOFTMAX, const float largest = largest_of(a, w); const float part = 1.0f / exponentials(a, w, largest),
      exp_of(a[j] - largest) * part)
LINES(DSOFTMAX, const float sum = product_of(a, b, w), b[j] * (a[j] - sum))
NUMBERS(SUMW, sum_of)
NUMBERS(MAXW, maximum_of)
