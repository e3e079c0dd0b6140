extern "Python" bool annbpy_progress(void *user, const char *stage, uint64_t done, uint64_t total);
extern "Python" bool annbpy_difference(void *user, const char *path, const char *what);
extern "Python" void annbpy_note(void *user, const char *note);
/* ---- code ---- */
