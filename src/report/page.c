/* The page: a frame, styles, the data, programs. A content security policy allows only programs with the right digest,
 * so text from a log could not run even if it became part of the page. */
#include "internal.h"

#include <openssl/evp.h>
#include <string.h>

extern const char rhrun_report_body[], rhrun_report_style[], rhrun_report_uplot_style[], rhrun_report_uplot[],
    rhrun_report_uplot_license[];
extern const uint64_t rhrun_report_body_size, rhrun_report_style_size, rhrun_report_uplot_style_size,
    rhrun_report_uplot_size, rhrun_report_uplot_license_size;
struct program {
    const char *name, *text;
    uint64_t size;
};
extern const struct program rhrun_report_programs[];

static void put_digest(const char *text, size_t len, struct buf *ret)
{
    uint8_t digest[32];
    unsigned char base64[64];
    digest_sha256(text, len, digest);
    EVP_EncodeBlock(base64, digest, sizeof digest);
    buf_printf(ret, " 'sha256-%s'", (const char *)base64);
}

static void put_policy(struct buf *ret)
{
    buf_puts(ret, "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; "
                  "form-action 'none'; script-src");
    put_digest(rhrun_report_uplot, rhrun_report_uplot_size, ret);
    for (const struct program *p = rhrun_report_programs; p->name; p++)
        put_digest(p->text, p->size, ret);
    buf_puts(ret, "; style-src");
    put_digest(rhrun_report_uplot_style, rhrun_report_uplot_style_size, ret);
    put_digest(rhrun_report_style, rhrun_report_style_size, ret);
    buf_puts(ret, "\">\n");
}

static void put_element(const char *name, const char *text, size_t len, struct buf *ret)
{
    buf_printf(ret, "<%s>", name);
    buf_append(ret, text, len);
    buf_printf(ret, "</%s>\n", name);
}

void report_page(const struct report *r, struct buf *ret)
{
    buf_puts(ret, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    put_policy(ret);
    buf_puts(ret,
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
             "<title>rhrun report</title>\n");
    put_element("style", rhrun_report_uplot_style, rhrun_report_uplot_style_size, ret);
    put_element("style", rhrun_report_style, rhrun_report_style_size, ret);
    buf_puts(ret, "</head>\n<body>\n");
    buf_append(ret, rhrun_report_body, rhrun_report_body_size);
    buf_puts(ret, "<script type=\"application/json\" id=\"data\">");
    report_json(r, ret);
    buf_puts(ret, "</script>\n");
    buf_puts(ret, "<!-- uPlot, https://github.com/leeoniya/uPlot\n\n"); /* its licence must go with it */
    buf_append(ret, rhrun_report_uplot_license, rhrun_report_uplot_license_size);
    buf_puts(ret, "-->\n");
    put_element("script", rhrun_report_uplot, rhrun_report_uplot_size, ret);
    for (const struct program *p = rhrun_report_programs; p->name; p++)
        put_element("script", p->text, p->size, ret);
    buf_puts(ret, "</body>\n</html>\n");
}
