/* Whether a program can be run: every register, column and slot there, so that a faulty one gives an error. */

#include "rows.h"

#define FORM(name, out, a, b, slots) {out, a, b, slots},
const Form rows_forms[OPS] = {ROWS_OPS(FORM)};

static int is_view(const Run *run, int32_t packed, ptrdiff_t columns) {
    const uint32_t reg = (uint32_t)packed & 0xFFFFu, column = (uint32_t)packed >> 16;
    return packed >= 0 && (ptrdiff_t)reg < run->registers && (ptrdiff_t)column + columns <= run->regs[reg].width;
}

static int is_operand(const Run *run, const Instruction *code, char form, int32_t packed, ptrdiff_t k) {
    switch (form) {
        case 'w': return is_view(run, packed, code->w);
        case 'k': return is_view(run, packed, k);
        case '1': return is_view(run, packed, 1);
        default: return 1;
    }
}

static int space_of(const Run *run, int32_t packed) { return run->regs[packed & 0xFFFF].space; }

/* Whether the operands have rows of the same space, or those that SPREAD and SEGSUM are between. */
static int are_spaces(const Run *run, const Instruction *code, const Form *form) {
    const int32_t first = form->out != '-' ? code->out : code->a;
    const int space = space_of(run, first);
    if (code->op == OP_SPREAD || code->op == OP_SEGSUM)
        return space == (code->op == OP_SPREAD ? CHILD : NODE) && space_of(run, code->a) != space;
    return (form->a == '-' || space_of(run, code->a) == space) && (form->b == '-' || space_of(run, code->b) == space);
}

static int is_slot(const Run *run, ptrdiff_t slot) { return slot >= 0 && slot < run->slots; }

static int are_slots(const Run *run, const Instruction *code, int form) {
    return form == 0 || (is_slot(run, code->x) && (form != 2 || is_slot(run, (ptrdiff_t)code->x + 1)) &&
                         (form != 3 || code->y == -1 || is_slot(run, code->y)));
}

/* NULL, or what is wrong. */
const char *rows_check(const Run *run) {
    ptrdiff_t i;
    if (run->slots < 2) return "args has to begin with first and the saved buffer";
    for (i = 0; i < run->registers; i++) {
        const Register *reg = &run->regs[i];
        if ((reg->space != NODE && reg->space != CHILD) || reg->width < 0)
            return "a register has no such space or width";
        if (reg->home == SCRATCH ? reg->where < 0 || reg->where >= run->registers
                                 : (reg->home != SAVED && reg->home != DIRECT) || !is_slot(run, reg->where))
            return "a register has no such home; scratch buffers are numbered below the number of registers";
    }
    for (i = 0; i < run->instructions; i++) {
        const Instruction *code = &run->code[i];
        const ptrdiff_t k = code->op == OP_GEMM ? code->b : code->y;
        const Form *form;
        if (code->op < 0 || code->op >= OPS) return "an instruction has no such operation";
        form = &rows_forms[code->op];
        if (code->w < 0 || ((form->a == 'k' || form->b == 'k') && k < 0)) return "an instruction has a negative width";
        if (!is_operand(run, code, form->out, code->out, k) || !is_operand(run, code, form->a, code->a, k) ||
            !is_operand(run, code, form->b, code->b, k))
            return "an instruction names columns that no register has";
        if (!are_spaces(run, code, form)) return "an instruction mixes rows of nodes and of children";
        if (!are_slots(run, code, form->slots)) return "an instruction names a slot that args does not have";
    }
    return NULL;
}
