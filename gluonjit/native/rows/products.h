/* Matrix products in registers, b packed in panels; included once for each set of instructions, with LANES floats in a
   vector and at most TALL rows in a tile. */

#define WIDE (2 * LANES) /* columns of a panel: two vectors */
#define UNROLL _Pragma("GCC unroll 16")

typedef float Vector __attribute__((vector_size(LANES * sizeof(float))));
typedef float Loose __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

/* The columns of a tile that fill no vector. */
static __attribute__((noinline)) void write_rest(int tall, const float *sums, const float *bias, float *out,
                                                 ptrdiff_t ldo, ptrdiff_t columns, int accumulate) {
    ptrdiff_t j;
    int i;
    for (i = 0; i < tall; i++, sums += WIDE, out += ldo) {
        for (j = 0; j < columns; j++) {
            const float sum = bias ? sums[j] + bias[j] : sums[j];
            out[j] = accumulate ? out[j] + sum : sum;
        }
    }
}

/* One tile: `tall` rows and `vectors` vectors of columns, of which the first `columns` are there. Row i of a begins
   i * step after the first, and p-th elements lie p * stride after the first; one of both is 1. */
static inline __attribute__((always_inline)) void tile(
    const int tall, const int vectors, const int rowwise, const float *a, ptrdiff_t distance, const float *b,
    ptrdiff_t k, const float *bias, float *out, ptrdiff_t ldo, ptrdiff_t columns, int accumulate) {
    Vector sums[TALL][2], rest[TALL][2];
    const ptrdiff_t second = distance, third = 2 * distance;
    const float *rows[(TALL + 2) / 3]; /* every third: the two after it are found from it */
    int i, v;
    ptrdiff_t p;
    UNROLL for (i = 0; i < tall; i++) UNROLL for (v = 0; v < vectors; v++) sums[i][v] = (Vector){0};
    UNROLL for (i = 0; i < (tall + 2) / 3; i++) rows[i] = a + 3 * i * distance;
    if (!rowwise) { /* all of out is added to once: have it come while the sums are made */
        UNROLL for (i = 0; i < tall; i++) UNROLL for (v = 0; v < vectors; v++)
            __builtin_prefetch(out + i * ldo + v * LANES, 1);
    }
    for (p = 0; p < k; p++, b += WIDE) {
        Vector columns_of_b[2];
        UNROLL for (v = 0; v < vectors; v++) columns_of_b[v] = *(const Loose *)(b + v * LANES);
        UNROLL for (i = 0; i < tall; i++) {
            const float factor = !rowwise     ? a[i]
                                 : i % 3 == 0 ? rows[i / 3][p]
                                 : i % 3 == 1 ? rows[i / 3][p + second]
                                              : rows[i / 3][p + third];
            UNROLL for (v = 0; v < vectors; v++) sums[i][v] += factor * columns_of_b[v];
        }
        if (!rowwise) a += distance;
    }
    if (columns == vectors * LANES) {
        UNROLL for (i = 0; i < tall; i++) UNROLL for (v = 0; v < vectors; v++) {
            Loose *place = (Loose *)(out + i * ldo + v * LANES);
            Vector sum = sums[i][v];
            if (bias) sum += *(const Loose *)(bias + v * LANES);
            if (accumulate) sum += *place;
            *place = sum;
        }
        return;
    }
    UNROLL for (i = 0; i < tall; i++) UNROLL for (v = 0; v < vectors; v++) rest[i][v] = sums[i][v];
    write_rest(tall, (const float *)rest, bias, out, ldo, columns, accumulate);
}

typedef void (*Tile)(const float *a, ptrdiff_t distance, const float *b, ptrdiff_t k, const float *bias, float *out,
                     ptrdiff_t ldo, ptrdiff_t columns, int accumulate);

#define TILE(tall, vectors, rowwise)                                                                                  \
    static void tile_##tall##_##vectors##_##rowwise(const float *a, ptrdiff_t distance, const float *b, ptrdiff_t k,  \
                                                    const float *bias, float *out, ptrdiff_t ldo,                     \
                                                    ptrdiff_t columns, int accumulate) {                              \
        tile(tall, vectors, rowwise, a, distance, b, k, bias, out, ldo, columns, accumulate);                         \
    }
#define TILES(tall) TILE(tall, 1, 0) TILE(tall, 2, 0) TILE(tall, 1, 1) TILE(tall, 2, 1)
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6)
#if TALL > 6
TILES(7) TILES(8) TILES(9) TILES(10) TILES(11) TILES(12)
#endif

#define NAMES(vectors, rowwise)                                                                               \
    {NULL, tile_1_##vectors##_##rowwise, tile_2_##vectors##_##rowwise, tile_3_##vectors##_##rowwise,          \
     tile_4_##vectors##_##rowwise, tile_5_##vectors##_##rowwise, tile_6_##vectors##_##rowwise, MORE(vectors, rowwise)}
#if TALL > 6
#define MORE(vectors, rowwise)                                                                                \
    tile_7_##vectors##_##rowwise, tile_8_##vectors##_##rowwise, tile_9_##vectors##_##rowwise,                 \
        tile_10_##vectors##_##rowwise, tile_11_##vectors##_##rowwise, tile_12_##vectors##_##rowwise
#else
#define MORE(vectors, rowwise) NULL
#endif
static const Tile tiles[2][2][14] = {{NAMES(1, 0), NAMES(2, 0)}, {NAMES(1, 1), NAMES(2, 1)}};

/* A tile of a product: its rows from begin to end, its columns from j. */
static inline void place_tile(const View *view, ptrdiff_t k, const float *bias, int accumulate, int rowwise,
                              ptrdiff_t begin, ptrdiff_t end, ptrdiff_t j) {
    const ptrdiff_t columns = view->w - j < WIDE ? view->w - j : WIDE;
    tiles[rowwise][columns > LANES][end - begin](view->a + begin * (rowwise ? view->lda : 1), view->lda,
                                                 view->b + j * k, k, bias ? bias + j : NULL,
                                                 view->out + begin * view->ldo + j, view->ldo, columns, accumulate);
}

/* Panel by panel, so that one stays in the nearest cache; rows in tiles of sizes that differ by one at most. */
static void product(const View *view, ptrdiff_t k, const float *bias, int accumulate) {
    const ptrdiff_t rows = view->rows, count = (rows + TALL - 1) / TALL;
    ptrdiff_t j, t;
    for (j = 0; j < view->w; j += WIDE)
        for (t = 0; t < count; t++)
            place_tile(view, k, bias, accumulate, 1, t * rows / count, (t + 1) * rows / count, j);
}

/* Row by row of out, which is the largest of the matrices here. */
static void transposed(const View *view, ptrdiff_t k) {
    const ptrdiff_t rows = view->rows, count = (rows + TALL - 1) / TALL;
    ptrdiff_t j, t;
    for (t = 0; t < count; t++)
        for (j = 0; j < view->w; j += WIDE)
            place_tile(view, k, NULL, 1, 0, t * rows / count, (t + 1) * rows / count, j);
}
