/* The right operand of a product in panels: all its rows, a few columns wide, filled up with zeros. */

#include <string.h>

#include "rows.h"

#define LINE 16 /* floats in a line of the cache */

typedef float Four __attribute__((vector_size(16)));
typedef float Loose __attribute__((vector_size(16), aligned(4), may_alias));

#if defined(__clang__)
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int32_t Order __attribute__((vector_size(16)));
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (Order){i, j, k, l})
#endif

/* Counts the floats of the panels of a (k, n) matrix: 0, or -1 if they are too many. */
int rows_packed(ptrdiff_t k, ptrdiff_t n, int panel, size_t *floats) {
    ptrdiff_t wide, all;
    if (k < 0 || n < 0 || __builtin_add_overflow(n, panel - 1, &wide)) return -1;
    if (__builtin_mul_overflow(wide / panel * panel, k, &all) || all > PTRDIFF_MAX / (ptrdiff_t)sizeof(float)) return -1;
    *floats = (size_t)all;
    return 0;
}

static inline void turn(const float *from, ptrdiff_t distance, float *to, ptrdiff_t panel) {
    const Four a = *(const Loose *)from, b = *(const Loose *)(from + distance);
    const Four c = *(const Loose *)(from + 2 * distance), d = *(const Loose *)(from + 3 * distance);
    const Four ab = SHUFFLE(a, b, 0, 4, 1, 5), cd = SHUFFLE(c, d, 0, 4, 1, 5);
    const Four ab_high = SHUFFLE(a, b, 2, 6, 3, 7), cd_high = SHUFFLE(c, d, 2, 6, 3, 7);
    *(Loose *)to = SHUFFLE(ab, cd, 0, 1, 4, 5);
    *(Loose *)(to + panel) = SHUFFLE(ab, cd, 2, 3, 6, 7);
    *(Loose *)(to + 2 * panel) = SHUFFLE(ab_high, cd_high, 0, 1, 4, 5);
    *(Loose *)(to + 3 * panel) = SHUFFLE(ab_high, cd_high, 2, 3, 6, 7);
}

/* A panel of a matrix with one row after the other. */
static void copy(const float *from, ptrdiff_t k, ptrdiff_t columns, ptrdiff_t row, float *to, ptrdiff_t panel) {
    ptrdiff_t i, j;
    for (i = 0; i < k; i++, from += row, to += panel) {
        if (columns < panel) {
            memcpy(to, from, (size_t)columns * sizeof(float));
            continue;
        }
        for (j = 0; j < panel; j += 8) memcpy(to + j, from + j, 8 * sizeof(float)); /* no call, as of a number only known here */
    }
}

static void scatter(const float *from, ptrdiff_t begin, ptrdiff_t end, ptrdiff_t columns, ptrdiff_t row,
                    ptrdiff_t column, float *to, ptrdiff_t panel) {
    ptrdiff_t i, j;
    for (i = begin; i < end; i++)
        for (j = 0; j < columns; j++) to[i * panel + j] = from[i * row + j * column];
}

/* A panel of a matrix with one column after the other: as many rows at a time as lie in one line of the cache, so that
   a line is read once even where distances between columns make them meet in the cache. */
static void turn_panel(const float *from, ptrdiff_t k, ptrdiff_t columns, ptrdiff_t column, float *to,
                       ptrdiff_t panel) {
    const ptrdiff_t whole = k / 4 * 4, left = columns / 4 * 4;
    ptrdiff_t begin, i, j;
    for (begin = 0; begin < whole; begin += LINE) {
        const ptrdiff_t end = whole - begin < LINE ? whole : begin + LINE;
        for (j = 0; j < left; j += 4)
            for (i = begin; i < end; i += 4) turn(from + i + j * column, column, to + i * panel + j, panel);
        scatter(from + left * column, begin, end, columns - left, 1, column, to + left, panel);
    }
    scatter(from, whole, k, columns, 1, column, to, panel);
}

/* Element (i, j) is source[i * row + j * column]. */
void rows_pack(const float *source, ptrdiff_t k, ptrdiff_t n, ptrdiff_t row, ptrdiff_t column, float *target,
               int panel) {
    ptrdiff_t begin;
    for (begin = 0; begin < n; begin += panel) {
        const ptrdiff_t columns = n - begin < panel ? n - begin : panel;
        const float *from = source + begin * column;
        float *to = target + begin * k;
        if (columns < panel) memset(to, 0, (size_t)(k * panel) * sizeof(float));
        if (column == 1)
            copy(from, k, columns, row, to, panel);
        else if (row == 1)
            turn_panel(from, k, columns, column, to, panel);
        else
            scatter(from, 0, k, columns, row, column, to, panel);
    }
}
