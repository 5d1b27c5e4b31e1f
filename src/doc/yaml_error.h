/* Private to doc: libyaml's syntax errors in the words of a user who never read its source. */
#ifndef RHRUN_DOC_YAML_ERROR_H
#define RHRUN_DOC_YAML_ERROR_H

#include "internal.h"

#include <yaml.h>

void doc_yaml_syntax_error(struct loader *loader, const yaml_parser_t *parser);
/* Adds "put ${{ }} in quotes" when an unquoted expression stands on these lines; else false. */
bool doc_yaml_expression_error(struct loader *loader, uint32_t first_line, uint32_t last_line);

#endif
