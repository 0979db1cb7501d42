/* Operations along a row; included once for each set of instructions. Sums are in double precision, so that they are
   as right as what is summed. */

static inline float sum_of(const float *a, ptrdiff_t w) {
    double sum = 0.0;
    ptrdiff_t j;
    _Pragma("omp simd reduction(+ : sum)") for (j = 0; j < w; j++) sum += a[j];
    return (float)sum;
}

static inline float largest_of(const float *a, ptrdiff_t w) {
    float largest = -INFINITE;
    ptrdiff_t j;
    _Pragma("omp simd reduction(max : largest)") for (j = 0; j < w; j++) largest = a[j] > largest ? a[j] : largest;
    return largest;
}

/* Sum of e^(a - largest) - 1, where 1 is that of the largest. */
static inline double exponentials(const float *a, ptrdiff_t w, float largest) {
    double sum = 0.0;
    ptrdiff_t j;
    int ones = 0;
    _Pragma("omp simd reduction(+ : sum, ones)") for (j = 0; j < w; j++) {
        const float e = exp_of_difference(a[j], largest);
        ones += a[j] == largest;
        sum += a[j] == largest ? 0.0f : e;
    }
    return sum + (ones - 1) + (largest - largest); /* NaN where the largest is infinite */
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
    double sum = 0.0;
    ptrdiff_t j;
    _Pragma("omp simd reduction(+ : sum)") for (j = 0; j < w; j++) sum += (double)a[j] * b[j];
    return (float)sum;
}

/* The whole number of 64 bits in two columns, which `pick` and its like take as a float. */
static inline float whole_of(const float *a, ptrdiff_t w) {
    int64_t number;
    (void)w;
    memcpy(&number, a, sizeof(number));
    return (float)number;
}

static inline float log_of_sum(const float *a, ptrdiff_t w) {
    const float largest = largest_of(a, w);
    if (largest - largest != 0.0f) return sum_of(a, w); /* infinite, or NaN */
    return largest + (float)log1p(exponentials(a, w, largest));
}

static inline float place_of_largest(const float *a, ptrdiff_t w) {
    ptrdiff_t j, place = 0;
    for (j = 1; j < w && a[place] == a[place]; j++)
        if (!(a[j] <= a[place])) place = j;
    return (float)place;
}

LINES(LOGSOFTMAX, const float largest = largest_of(a, w);
      const float whole = (float)log1p(exponentials(a, w, largest)), (a[j] - largest) - whole)
LINES(DLOGSOFTMAX, const float sum = sum_of(a, w), a[j] - exp_of(b[j]) * sum)
LINES(SOFTMAX, const float largest = largest_of(a, w);
      const float part = (float)(1.0 / (1.0 + exponentials(a, w, largest))), exp_of_difference(a[j], largest) * part)
LINES(DSOFTMAX, const float sum = product_of(a, b, w), b[j] * (a[j] - sum))
NUMBERS(SUMW, sum_of)
NUMBERS(WHOLE, whole_of)
NUMBERS(LOGSUMEXP, log_of_sum)
NUMBERS(ARGMAX, place_of_largest)
