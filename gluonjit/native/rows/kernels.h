/* All that is compiled for one set of instructions; KERNELS is the name of the table. */

#include "rows.h"

#include "functions.h"

#include "elements.h"
#include "lines.h"
#include "products.h"
#include "updates.h"

const Kernels KERNELS = {
    .name = NAME,
    .panel = WIDE,
    .functions =
        {
            ELEMENTS /* as entries of the table now */
            [OP_ADDV] = {ADD_set, ADD_add},
            [OP_MULV] = {MUL_set, MUL_add},
            [OP_SUBV] = {SUB_set, SUB_add},
            [OP_SUMW] = {SUMW_set, SUMW_add},
            [OP_WHOLE] = {WHOLE_set, WHOLE_add},
            [OP_LOGSUMEXP] = {LOGSUMEXP_set, LOGSUMEXP_add},
            [OP_ARGMAX] = {ARGMAX_set, ARGMAX_add},
            [OP_LOGSOFTMAX] = {LOGSOFTMAX_set, LOGSOFTMAX_add},
            [OP_DLOGSOFTMAX] = {DLOGSOFTMAX_set, DLOGSOFTMAX_add},
            [OP_SOFTMAX] = {SOFTMAX_set, SOFTMAX_add},
            [OP_DSOFTMAX] = {DSOFTMAX_set, DSOFTMAX_add},
        },
    .product = product,
    .transposed = transposed,
    .updated = updated,
};
