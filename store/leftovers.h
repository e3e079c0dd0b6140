/* What killed writers left under tmp/ (SPEC.md, section 7). */
#ifndef ANNB_STORE_LEFTOVERS_H
#define ANNB_STORE_LEFTOVERS_H

#include <stddef.h>
#include <stdint.h>

enum { ANNB_TEMP_NAME = 48 };

/* The name of file `n` of the transaction `unique`: file 0 is its marker. */
void annb_temp_name(char name[ANNB_TEMP_NAME], uint64_t unique, unsigned n);

/* Remove the files in `dir` of every transaction that holds no lock on its marker. Failures are ignored: it tidies up. */
void annb_leftovers_remove(const char *dir);

#endif
