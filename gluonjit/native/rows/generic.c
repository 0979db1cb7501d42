/* The kernels for any processor: what its compiler makes of vectors of four floats. */

#include <math.h>
#include <string.h>

#define LANES 4
#define TALL 6
#define NAME "generic"
#define KERNELS rows_generic
#include "kernels.h"
