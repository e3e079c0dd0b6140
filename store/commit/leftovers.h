/* What killed writers left under tmp/ (SPEC.md, section 7). */
#ifndef ANNB_STORE_LEFTOVERS_H
#define ANNB_STORE_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ANNB_TEMP_NAME = 48 };

/* The name of file `n` of the transaction `unique`: file 0 is its marker. */
void annb_temp_name(char name[ANNB_TEMP_NAME], uint64_t unique, unsigned n);

/* Remove the files in `dir` of every transaction that holds no lock on its marker. Failures are ignored: it tidies up. */
void annb_leftovers_remove(const char *dir);

/* What a writer in another process leaves when it dies: files under tmp/, and directories that it made. */
typedef struct annb_remains {
  char *dirs[4];
  bool absent[4]; /* before it began */
} annb_remains;
/* `store` as it is now, before the writer begins. Where that fails there is nothing to remove later. */
void annb_remains_note(annb_remains *remains, const char *store);
/* The files of dead writers, and the directories that were absent, where they are empty. */
void annb_remains_remove(const annb_remains *remains);
void annb_remains_free(annb_remains *remains);

#endif
