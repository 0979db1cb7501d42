/* Tells whether a program can be run: every register, column and slot there, and memory enough at every address, so
   that a faulty one gives an error. All numbers have 64 bits, and none is added or multiplied without a look at what
   is left. */

#include "rows.h"

#define FORM(name, out, a, b, slots) {out, a, b, slots},
const Form rows_forms[OPS] = {ROWS_OPS(FORM)};

static int is_view(const Run *run, int64_t packed, int64_t columns) {
    const ptrdiff_t reg = register_of(packed), column = column_of(packed);
    return packed >= 0 && (packed & 0x80000000) == 0 && reg < run->registers &&
           column <= run->regs[reg].width && columns <= run->regs[reg].width - column;
}

static int is_operand(const Run *run, const Instruction *code, char form, int64_t packed, int64_t k) {
    switch (form) {
        case 'w': return is_view(run, packed, code->w);
        case 'k': return is_view(run, packed, k);
        case '1': return is_view(run, packed, 1);
        case 'c': return code->w == 1 && is_view(run, packed, 1) && run->regs[register_of(packed)].width == 1;
        default: return 1;
    }
}

static int space_of(const Run *run, int64_t packed) { return run->regs[register_of(packed)].space; }

/* Tells whether the operands have rows of the same space, or those that SPREAD and SEGSUM are between. */
static int are_spaces(const Run *run, const Instruction *code, const Form *form) {
    const int64_t first = form->out != '-' ? code->out : code->a;
    const int space = space_of(run, first);
    if (code->op == OP_SPREAD || code->op == OP_SEGSUM)
        return space == (code->op == OP_SPREAD ? CHILD : NODE) && space_of(run, code->a) != space;
    return (form->out != 'c' || space == CHILD) && (form->a == '-' || space_of(run, code->a) == space) && (form->b == '-' || space_of(run, code->b) == space);
}

static int is_slot(const Run *run, int64_t slot) { return slot >= 0 && slot < run->slots; }

static int are_slots(const Run *run, const Instruction *code, int form) {
    return form == 0 || (is_slot(run, code->x) && (form != 2 || is_slot(run, code->x + 1)) &&
                         (form != 3 || code->y == -1 || is_slot(run, code->y)));
}

/* Tells whether a slot is an address of that many numbers of 32 bits, from so many on. */
static int is_room(const Run *run, int64_t slot, int64_t begin, int64_t rows, int64_t width) {
    const Slot *given = &run->args[slot];
    int64_t count, end;
    if (__builtin_mul_overflow(rows, width, &count) || __builtin_add_overflow(begin, count, &end)) return 0;
    if (count == 0) return 1;
    return begin >= 0 && given->at != 0 && given->at % 4 == 0 && end <= given->bytes / 4;
}

/* Tells whether the rows of each node's children follow those of the node before. */
static int are_children(const Run *run) {
    ptrdiff_t i;
    if (!run->first || run->nodes <= 0) return 1;
    if (!is_room(run, 0, 0, run->nodes + 1, 1) || run->first[0] < 0) return 0;
    for (i = 0; i < run->nodes; i++)
        if (run->first[i] > run->first[i + 1]) return 0;
    return 1;
}

/* Tells whether an index is there for each row, and names rows that are there; or, without one, those rows. */
static int are_rows(const Run *run, int64_t base, int64_t rows, int64_t begin, int64_t w) {
    const int32_t *index = (const int32_t *)(intptr_t)run->args[base + 1].at;
    const int64_t there = w == 0 ? INT64_MAX : run->args[base].bytes / 4 / w;
    int64_t i;
    int wrong = 0;
    if (!index) return is_room(run, base, 0, rows, w);
    if (!is_room(run, base + 1, 0, rows, 1) || (rows > begin && !is_room(run, base, 0, 1, w))) return 0;
    for (i = begin; i < rows; i++) wrong |= index[i] < 0 || index[i] >= there;
    return !wrong;
}

/* Tells whether there is memory for all that an instruction reads and writes beside its registers. */
static int is_memory(const Run *run, const Instruction *code, const int64_t *begin, const int64_t *rows) {
    size_t packed;
    int64_t stride;
    int space;
    switch (code->op) {
        case OP_GATHER:
        case OP_SCATTER:
            space = space_of(run, code->op == OP_GATHER ? code->out : code->a);
            return are_rows(run, code->x, rows[space], begin[space], code->w);
        case OP_GEMM:
            return rows_packed(code->b, code->w, run->kernels->panel, &packed) == 0 &&
                   is_room(run, code->x, 0, (int64_t)packed, 1) && (code->y < 0 || is_room(run, code->y, 0, 1, code->w));
        case OP_GEMM_DW:
            stride = run->args[code->x + 1].at;
            return code->w == 0 || code->y == 0 ||
                   (stride >= 0 && stride <= INT64_MAX / 4 / code->w &&
                    is_room(run, code->x, (code->w - 1) * stride, 1, code->y));
        case OP_COLSUM:
        case OP_ADDV:
        case OP_MULV:
        case OP_SUBV: return is_room(run, code->x, 0, 1, code->w);
        default: return 1;
    }
}

static const char *check_registers(const Run *run, const int64_t *rows) {
    ptrdiff_t i;
    for (i = 0; i < run->registers; i++) {
        const Register *reg = &run->regs[i];
        if ((reg->space != NODE && reg->space != CHILD) || reg->width < 0)
            return "a register has no such space or width";
        if (reg->home == SCRATCH ? reg->where < 0 || reg->where >= run->registers
                                 : (reg->home != SAVED && reg->home != DIRECT) || !is_slot(run, reg->where))
            return "a register has no such home; scratch buffers are numbered below the number of registers";
        if ((reg->home == DIRECT && !is_room(run, reg->where, 0, rows[reg->space], reg->width)) ||
            (reg->home == SAVED && !is_room(run, 1, run->args[reg->where].at, rows[reg->space], reg->width)))
            return "a register has more rows than there is memory at its address";
    }
    return NULL;
}

static const char *check_instruction(const Run *run, const Instruction *code, const int64_t *begin, const int64_t *rows) {
    const int64_t k = code->op == OP_GEMM ? code->b : code->y;
    const Form *form;
    if (code->op < 0 || code->op >= OPS) return "an instruction has no such operation";
    form = &rows_forms[code->op];
    if (code->w < 0 || ((code->op == OP_GEMM || code->op == OP_GEMM_DW) && k < 0))
        return "an instruction has a negative width";
    if (code->op == OP_WHOLE && code->w != 2) return "a whole number is not in two columns";
    if (!is_operand(run, code, form->out, code->out, k) || !is_operand(run, code, form->a, code->a, k) ||
        !is_operand(run, code, form->b, code->b, k))
        return "an instruction names columns that no register has";
    if (!are_spaces(run, code, form)) return "an instruction mixes rows of nodes and of children";
    if (!are_slots(run, code, form->slots)) return "an instruction names a slot that args does not have";
    if (!is_memory(run, code, begin, rows)) return "an instruction needs more memory than there is at an address";
    return NULL;
}

/* NULL, or what is wrong. */
const char *rows_check(const Run *run) {
    int64_t begin[2] = {0, 0}, rows[2] = {0, 0};
    const char *wrong;
    ptrdiff_t i;
    if (run->nodes > MOST_NODES) return "there are more nodes than indices can tell apart";
    if (run->slots < 2) return "args has to begin with first and the saved buffer";
    if (!are_children(run)) return "first does not say for each node where its children begin";
    rows[NODE] = run->nodes > 0 ? run->nodes : 0;
    if (run->first && run->nodes > 0) {
        begin[CHILD] = run->first[0];
        rows[CHILD] = run->first[run->nodes];
    }
    wrong = check_registers(run, rows);
    for (i = 0; i < run->instructions && !wrong; i++)
        wrong = check_instruction(run, &run->code[i], begin, rows);
    return wrong;
}
