/*
 * strip_sections FILE: cuts off everything after the last loaded byte of a static ELF program (section names and
 * headers, the compilers' names), and sets its header to match. The program runs without them; GNU objcopy can do the
 * same from 2.41 on (--strip-section-headers). For the agent, which is uploaded with each connection: it saves 1 KB of
 * 100.
 */
#include <elf.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    FILE *f = argc == 2 ? fopen(argv[1], "r+b") : NULL;
    Elf64_Ehdr head;
    if (!f || fread(&head, sizeof head, 1, f) != 1 || head.e_ident[EI_CLASS] != ELFCLASS64) {
        fprintf(stderr, "strip_sections: \"%s\" is no 64-bit ELF file\n", argc > 1 ? argv[1] : "");
        return 1;
    }
    Elf64_Off end = head.e_phoff + (Elf64_Off)head.e_phnum * sizeof(Elf64_Phdr);
    for (unsigned i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr part;
        if (fseek(f, (long)(head.e_phoff + i * sizeof part), SEEK_SET) != 0 || fread(&part, sizeof part, 1, f) != 1)
            return 1;
        if (part.p_offset + part.p_filesz > end)
            end = part.p_offset + part.p_filesz;
    }
    head.e_shoff = 0;
    head.e_shnum = head.e_shstrndx = 0;
    if (fseek(f, 0, SEEK_SET) != 0 || fwrite(&head, sizeof head, 1, f) != 1 || fflush(f) != 0)
        return 1;
    return ftruncate(fileno(f), (off_t)end) != 0 || fclose(f) != 0;
}
