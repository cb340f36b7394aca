/* Runs a fuzz target over files (or all files in folders) without a fuzzer, so that its corpus is a
 * normal test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t size = 0, room = 0;
    if (!file) {
        perror(path);
        exit(2);
    }
    do {
        room = 2 * room + 4096;
        data = realloc(data, room);
        if (!data)
            abort();
        size += fread(data + size, 1, room - size, file);
    } while (size == room);
    fclose(file);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static unsigned run_folder(const char *path)
{
    char name[4096];
    unsigned count = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        run_file(name);
        count++;
    }
    if (folder)
        closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    unsigned count = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) != 0)
            continue; /* there may be no corpus yet, but there are seeds */
        if (S_ISDIR(info.st_mode)) {
            count += run_folder(argv[i]);
        } else {
            run_file(argv[i]);
            count++;
        }
    }
    printf("%u inputs\n", count);
    return count > 0 ? 0 : 1; /* an empty corpus would test nothing */
}
