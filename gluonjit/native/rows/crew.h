/* Threads that help the one that runs a stretch. They sleep while there is nothing to do, after a moment of looking. */

#ifndef GLUONJIT_CREW_H
#define GLUONJIT_CREW_H

#include <stddef.h>

enum { MOST_THREADS = 64 };

/* Do one piece of some work; thread 0 is the one that shares it. */
typedef void (*Piece)(void *work, int thread, ptrdiff_t number);

/* Take the crew, for up to so many threads, the caller's included: how many there are; 1 where another has it. */
int crew_take(int threads);
void crew_leave(void);

/* Do the pieces of some work on so many of the threads taken. Pieces that follow each other are one thread's, as long as
   nobody has to wait; who comes late finds less to do, or nothing. */
void crew_share(int threads, ptrdiff_t pieces, Piece piece, void *work);

#endif
