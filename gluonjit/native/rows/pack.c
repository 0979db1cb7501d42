/* The right operand of a product in panels: all its rows, a few columns wide, filled up with zeros. */

#include <string.h>

#include "rows.h"

size_t rows_packed(ptrdiff_t k, ptrdiff_t n, int panel) {
    return (size_t)k * (size_t)((n + panel - 1) / panel) * (size_t)panel;
}

/* Element (i, j) is source[i * row + j * column]. */
void rows_pack(const float *source, ptrdiff_t k, ptrdiff_t n, ptrdiff_t row, ptrdiff_t column, float *target,
               int panel) {
    ptrdiff_t begin, i, j;
    for (begin = 0; begin < n; begin += panel) {
        const ptrdiff_t columns = n - begin < panel ? n - begin : panel;
        const float *from = source + begin * column;
        float *to = target + begin * k;
        for (i = 0; i < k; i++, from += row, to += panel) {
            if (column == 1)
                memcpy(to, from, (size_t)columns * sizeof(float));
            else
                for (j = 0; j < columns; j++) to[j] = from[j * column];
            memset(to + columns, 0, (size_t)(panel - columns) * sizeof(float));
        }
    }
}
