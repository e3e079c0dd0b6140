#include <annblock/annblock.h>

#include <stddef.h>

const char *annb_status_name(annb_status status) {
  switch (status) {
#define NAME(name, number, text)                                                                                       \
  case name:                                                                                                           \
    return #name;
    ANNB_STATUS_LIST(NAME)
#undef NAME
  }
  return "unknown";
}

const char *annb_status_text(annb_status status) {
  switch (status) {
#define TEXT(name, number, text)                                                                                       \
  case name:                                                                                                           \
    return text;
    ANNB_STATUS_LIST(TEXT)
#undef TEXT
  }
  return "unknown status";
}

const char *annb_version(void) { return "0.1.0"; }

static const struct {
  const char *name;
  uint32_t size;
} dtypes[] = {
    [ANNB_BOOL] = {"bool", 1}, [ANNB_I8] = {"i8", 1},   [ANNB_I16] = {"i16", 2}, [ANNB_I32] = {"i32", 4},
    [ANNB_I64] = {"i64", 8},   [ANNB_U8] = {"u8", 1},   [ANNB_U16] = {"u16", 2}, [ANNB_U32] = {"u32", 4},
    [ANNB_U64] = {"u64", 8},   [ANNB_F16] = {"f16", 2}, [ANNB_F32] = {"f32", 4}, [ANNB_F64] = {"f64", 8},
};

uint32_t annb_dtype_size(annb_dtype dtype) {
  return (unsigned)dtype < sizeof dtypes / sizeof *dtypes ? dtypes[dtype].size : 0;
}

const char *annb_dtype_name(annb_dtype dtype) {
  return (unsigned)dtype < sizeof dtypes / sizeof *dtypes ? dtypes[dtype].name : NULL;
}
