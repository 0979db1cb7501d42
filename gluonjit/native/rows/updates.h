/* Products a^T @ b of a few rows, added to a matrix that is much larger than both: it goes through the cache once, row
   by row, and b is read as it lies. Included once for each set of instructions, after products.h. */

/* Compilers read a row of b once for each row of out, which costs more where it is not aligned. */
#if LANES > 4
#define HOLD(vector) __asm__("" : "+v"(vector))
#else
#define HOLD(vector) (void)0
#endif

/* `tall` rows of out, the first of which is that of a's first column; a and b have `few` rows. */
static inline __attribute__((always_inline)) void update(const int few, const int tall, const View *view,
                                                         ptrdiff_t first) {
    const ptrdiff_t w = view->w, ldo = view->ldo, ldb = view->ldb, left = w % LANES;
    const float *b = view->b;
    float *out = view->out + first * ldo, factors[32];
    Vector rest[8];
    ptrdiff_t j;
    int i, p;
    UNROLL for (i = 0; i < tall; i++) UNROLL for (p = 0; p < few; p++)
        factors[i * few + p] = view->a[p * view->lda + first + i];
#define ADD_AT(j, place)                                                                                   \
    {                                                                                                      \
        Vector sums[8];                                                                                    \
        UNROLL for (i = 0; i < tall; i++) sums[i] = *(const Loose *)(out + i * ldo + (j));                 \
        UNROLL for (p = 0; p < few; p++) {                                                                 \
            Vector row = *(const Loose *)(b + p * ldb + (j));                                              \
            HOLD(row);                                                                                     \
            UNROLL for (i = 0; i < tall; i++) sums[i] += factors[i * few + p] * row;                       \
        }                                                                                                  \
        UNROLL for (i = 0; i < tall; i++) place = sums[i];                                                 \
    }
    /* The last columns lie in a vector with those before: read first, written last. */
    if (left > 0) ADD_AT(w - LANES, rest[i])
    for (j = 0; j < w - left; j += LANES) ADD_AT(j, *(Loose *)(out + i * ldo + j))
    if (left > 0) UNROLL for (i = 0; i < tall; i++) *(Loose *)(out + i * ldo + w - LANES) = rest[i];
#undef ADD_AT
}

#define UPDATE(few, tall)                                                                                 \
    static void update_##few(const View *view) {                                                          \
        ptrdiff_t i = 0;                                                                                  \
        for (; i + tall <= view->rows; i += tall) update(few, tall, view, i);                             \
        for (; i < view->rows; i++) update(few, 1, view, i);                                              \
    }

/* Tiles are so small that factors, sums and a row of b fit into registers. */
#if TALL > 6
UPDATE(1, 4) UPDATE(2, 4) UPDATE(3, 4) UPDATE(4, 4) UPDATE(5, 4) UPDATE(6, 3) UPDATE(7, 3) UPDATE(8, 2)
#else
UPDATE(1, 4) UPDATE(2, 4) UPDATE(3, 3) UPDATE(4, 3) UPDATE(5, 2) UPDATE(6, 2) UPDATE(7, 2) UPDATE(8, 2)
#endif

static void updated(const View *view, ptrdiff_t k) {
    static void (*const updates[FEW + 1])(const View *view) = {
        NULL, update_1, update_2, update_3, update_4, update_5, update_6, update_7, update_8};
    if (k > 0) updates[k](view);
}
