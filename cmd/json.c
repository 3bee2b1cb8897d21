/* JSON documents: what the commands say to programs. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"

static cJSON *
made(cJSON *j)
{
	if (!j)
		abort();
	return j;
}

cJSON *
json_new(const Options *o)
{
	cJSON *doc = o->json ? made(cJSON_CreateObject()) : NULL;

	json_real(doc, "version", JSON_VERSION);
	json_text(doc, "command", o->cmd->name);
	json_list(doc, "messages");
	return doc;
}

/* JSON is UTF-8; what is not becomes question marks. */
void
json_text(cJSON *j, const char *key, const char *s)
{
	if (j)
		made(s ? cJSON_AddStringToObject(j, key, s) : cJSON_AddNullToObject(j, key));
}

void
json_real(cJSON *j, const char *key, double v)
{
	if (j)
		made(isfinite(v) ? cJSON_AddNumberToObject(j, key, v) : cJSON_AddNullToObject(j, key));
}

void
json_flag(cJSON *j, const char *key, bool v)
{
	if (j)
		made(cJSON_AddBoolToObject(j, key, v));
}

cJSON *
json_list(cJSON *j, const char *key)
{
	return j ? made(cJSON_AddArrayToObject(j, key)) : NULL;
}

cJSON *
json_object(cJSON *j, const char *key)
{
	return j ? made(cJSON_AddObjectToObject(j, key)) : NULL;
}

static void
append(cJSON *list, cJSON *item)
{
	if (!cJSON_AddItemToArray(list, made(item)))
		abort();
}

cJSON *
json_add(cJSON *list)
{
	cJSON *j = list ? made(cJSON_CreateObject()) : NULL;

	if (list)
		append(list, j);
	return j;
}

void
json_add_text(cJSON *list, const char *s)
{
	if (list)
		append(list, cJSON_CreateString(s));
}

void
json_add_real(cJSON *list, double v)
{
	if (list)
		append(list, cJSON_CreateNumber(v));
}

/* ---- printing ------------------------------------------------------------------------------ */

/* Bytes of the UTF-8 character at s, 0 if there is none. */
static int
utf8(const unsigned char *s)
{
	int n = *s < 0x80 ? 1 : *s < 0xc2 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : *s < 0xf5 ? 4 : 0, i;

	for (i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

static void
put_string(const char *text, FILE *f)
{
	const unsigned char *s = (const unsigned char *)text;
	int n;

	fputc('"', f);
	for (; *s; s += n ? n : 1) {
		n = utf8(s);
		if (*s == '"' || *s == '\\')
			fprintf(f, "\\%c", *s);
		else if (*s < 32 || *s == 127)
			fprintf(f, "\\u%04x", *s);
		else if (n)
			fwrite(s, 1, (size_t)n, f);
		else
			fputc('?', f);
	}
	fputc('"', f);
}

static bool
is_flat(const cJSON *j)
{
	const cJSON *x;

	for (x = j->child; x; x = x->next)
		if (x->child)
			return false;
	return true;
}

static void
put(const cJSON *j, int indent, FILE *f)
{
	bool flat = is_flat(j) && (cJSON_IsArray(j) || indent >= 2), object = cJSON_IsObject(j);
	const cJSON *x;

	if (cJSON_IsString(j)) {
		put_string(j->valuestring, f);
	} else if (cJSON_IsNumber(j)) {
		if (j->valuedouble == floor(j->valuedouble) && fabs(j->valuedouble) < 9e15)
			fprintf(f, "%.0f", j->valuedouble);
		else
			fprintf(f, "%.9g", j->valuedouble);
	} else if (object || cJSON_IsArray(j)) {
		fputc(object ? '{' : '[', f);
		for (x = j->child; x; x = x->next) {
			if (flat)
				fputs(x == j->child ? "" : " ", f);
			else
				fprintf(f, "\n%*s", 2 * indent + 2, "");
			if (object) {
				put_string(x->string, f);
				fputs(": ", f);
			}
			put(x, indent + 1, f);
			fputs(x->next ? "," : "", f);
		}
		if (!flat && j->child)
			fprintf(f, "\n%*s", 2 * indent, "");
		fputc(object ? '}' : ']', f);
	} else {
		fputs(cJSON_IsTrue(j) ? "true" : cJSON_IsFalse(j) ? "false" : "null", f);
	}
}

void
json_print(const cJSON *j, FILE *f)
{
	put(j, 0, f);
	fputc('\n', f);
}

int
json_end(const Options *o, cJSON *doc, int code)
{
	FILE *f = doc && *o->json ? fopen(o->json, "w") : stdout;

	if (!doc)
		return code;
	json_real(doc, "exit", code);
	if (f)
		json_print(doc, f);
	cJSON_Delete(doc);
	if (!f || (f != stdout && fclose(f)))
		return complain(code ? code : X_TOOL, "%s: %s", o->json, strerror(errno));
	return code;
}
