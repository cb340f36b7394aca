#include "trainer/loop/train.h"
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <zlib.h>
#ifdef TG_HAVE_LZMA
#include <lzma.h>
#endif

train_library train_library_version(size_t i)
{
    train_library library = {.name = i == 0 ? "oneDNN" : i == 1 ? "zlib" : "liblzma"};
    const dnnl_version_t *dnnl = dnnl_version();
    if (i == 0)
        snprintf(library.version, sizeof library.version, "%d.%d.%d", dnnl->major, dnnl->minor,
                 dnnl->patch);
    else if (i == 1)
        snprintf(library.version, sizeof library.version, "%s", zlibVersion());
    else
#ifdef TG_HAVE_LZMA
        snprintf(library.version, sizeof library.version, "%s", lzma_version_string());
#else
        snprintf(library.version, sizeof library.version, "none");
#endif
    return library;
}
