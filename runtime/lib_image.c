/*
 * Pictures, by the libraries of their formats: JPEG, JPEG 2000, PNG, TIFF, WebP; BMP and PNM here.
 * Each format gives 8-bit RGB rows from the top; other pixel formats are made from that.
 */
#include <openjpeg.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <jpeglib.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include <webp/decode.h>
#include "host.h"

const char tcc_lib_image = 1;           /* what a link asks for that needs this file */

enum { MAX_SIDE = 1 << 20, MAX_PIXELS = 1 << 28 };

typedef struct Image {
	int64_t w, h;
	bool head;              /* only the sizes are asked for */
	uint8_t *rgb;           /* malloc'ed unless head */
} Image;

/* Room for the sizes that were found; false: they are none, or too large. */
static bool room(Image *im, int64_t w, int64_t h)
{
	im->w = w;
	im->h = h;
	if (w < 1 || h < 1 || w > MAX_SIDE || h > MAX_SIDE || w * h > MAX_PIXELS)
		return false;
	im->rgb = im->head ? NULL : malloc((size_t)(w * h * 3));
	return im->head || im->rgb;
}

/* --- JPEG ------------------------------------------------------------------------------------ */

typedef struct JpegError {
	struct jpeg_error_mgr mgr;
	jmp_buf back;
} JpegError;

static void jpeg_failed(j_common_ptr c)
{
	longjmp(((JpegError *)c->err)->back, 1);
}

static void jpeg_silent(j_common_ptr c, int level)
{
	(void)c;
	(void)level;
}

static bool read_jpeg(TccBytes in, Image *im)
{
	struct jpeg_decompress_struct d;
	JpegError err;
	d.err = jpeg_std_error(&err.mgr);
	err.mgr.error_exit = jpeg_failed;
	err.mgr.emit_message = jpeg_silent;
	if (setjmp(err.back)) {
		jpeg_destroy_decompress(&d);
		return false;
	}
	jpeg_create_decompress(&d);
	jpeg_mem_src(&d, in.p, in.n);
	jpeg_read_header(&d, TRUE);
	bool ok = room(im, d.image_width, d.image_height);
	if (ok && !im->head) {
		d.out_color_space = JCS_RGB;
		jpeg_start_decompress(&d);
		while (d.output_scanline < d.output_height) {
			JSAMPROW row = im->rgb + (size_t)d.output_scanline * (size_t)im->w * 3;
			jpeg_read_scanlines(&d, &row, 1);
		}
		jpeg_finish_decompress(&d);
	}
	jpeg_destroy_decompress(&d);
	return ok;
}

/* --- PNG ------------------------------------------------------------------------------------- */

static bool read_png(TccBytes in, Image *im)
{
	png_image p = {.version = PNG_IMAGE_VERSION};
	bool ok = png_image_begin_read_from_memory(&p, in.p, in.n) && room(im, p.width, p.height);
	uint8_t *rgba = NULL;
	if (ok && !im->head) {
		p.format = PNG_FORMAT_RGBA;
		rgba = malloc(PNG_IMAGE_SIZE(p));
		ok = rgba && png_image_finish_read(&p, NULL, rgba, 0, NULL);
		for (int64_t i = 0; ok && i < im->w * im->h; i++)
			memcpy(im->rgb + 3 * i, rgba + 4 * i, 3);
	}
	free(rgba);
	png_image_free(&p);
	return ok;
}

/* --- WebP ------------------------------------------------------------------------------------ */

static bool read_webp(TccBytes in, Image *im)
{
	int w, h;
	if (!WebPGetInfo(in.p, in.n, &w, &h) || !room(im, w, h))
		return false;
	return im->head || WebPDecodeRGBInto(in.p, in.n, im->rgb, (size_t)w * (size_t)h * 3, w * 3);
}

/* --- a file in memory, for libraries that read files ------------------------------------------ */

typedef struct Memory {
	TccBytes in;
	uint64_t at;
} Memory;

static uint64_t memory_read(Memory *m, void *to, uint64_t n)
{
	n = m->at >= m->in.n ? 0 : n < m->in.n - m->at ? n : m->in.n - m->at;
	if (n)
		memcpy(to, m->in.p + m->at, n);
	m->at += n;
	return n;
}

/* --- TIFF ------------------------------------------------------------------------------------ */

static tmsize_t tiff_read(thandle_t h, void *to, tmsize_t n)
{
	return (tmsize_t)memory_read(h, to, (uint64_t)n);
}

static tmsize_t tiff_write(thandle_t h, void *from, tmsize_t n)
{
	(void)h;
	(void)from;
	(void)n;
	return 0;
}

static toff_t tiff_seek(thandle_t h, toff_t to, int from)
{
	Memory *m = h;
	return m->at = to + (from == SEEK_CUR ? m->at : from == SEEK_END ? m->in.n : 0);
}

static int tiff_close(thandle_t h)
{
	(void)h;
	return 0;
}

static toff_t tiff_size(thandle_t h)
{
	return ((Memory *)h)->in.n;
}

static bool read_tiff(TccBytes in, Image *im)
{
	Memory m = {in, 0};
	uint32_t w = 0, h = 0, *rgba = NULL;
	TIFFSetErrorHandler(NULL);
	TIFFSetWarningHandler(NULL);
	TIFF *t = TIFFClientOpen("picture", "rm", &m, tiff_read, tiff_write, tiff_seek, tiff_close,
	                         tiff_size, NULL, NULL);
	if (!t)
		return false;
	bool ok = TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &w) && TIFFGetField(t, TIFFTAG_IMAGELENGTH, &h) &&
	          room(im, w, h);
	if (ok && !im->head) {
		rgba = malloc((size_t)w * h * 4);
		ok = rgba && TIFFReadRGBAImageOriented(t, w, h, rgba, ORIENTATION_TOPLEFT, 1);
		for (size_t i = 0; ok && i < (size_t)w * h; i++) {
			im->rgb[3 * i] = (uint8_t)TIFFGetR(rgba[i]);
			im->rgb[3 * i + 1] = (uint8_t)TIFFGetG(rgba[i]);
			im->rgb[3 * i + 2] = (uint8_t)TIFFGetB(rgba[i]);
		}
	}
	free(rgba);
	TIFFClose(t);
	return ok;
}

/* --- JPEG 2000 ------------------------------------------------------------------------------- */

static OPJ_SIZE_T jp2_read(void *to, OPJ_SIZE_T n, void *m)
{
	uint64_t got = memory_read(m, to, n);
	return got ? got : (OPJ_SIZE_T)-1;
}

static OPJ_OFF_T jp2_skip(OPJ_OFF_T n, void *m)
{
	((Memory *)m)->at += (uint64_t)n;
	return n;
}

static OPJ_BOOL jp2_seek(OPJ_OFF_T to, void *m)
{
	((Memory *)m)->at = (uint64_t)to;
	return OPJ_TRUE;
}

/* Sample i of a component in 8 bits. */
static uint8_t jp2_sample(const opj_image_comp_t *c, int64_t i)
{
	int64_t v = c->data[i] + (c->sgnd ? (int64_t)1 << (c->prec - 1) : 0);
	v = c->prec > 8 ? v >> (c->prec - 8) : c->prec < 8 ? v * 255 / ((1 << c->prec) - 1) : v;
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static bool jp2_pixels(const opj_image_t *j, Image *im)
{
	uint32_t n = j->numcomps < 3 ? 1 : 3;
	for (uint32_t k = 0; k < n; k++)
		if (j->comps[k].w != im->w || j->comps[k].h != im->h || !j->comps[k].data ||
		    j->comps[k].prec < 1 || j->comps[k].prec > 31)
			return false;
	for (int64_t i = 0; i < im->w * im->h; i++)
		for (uint32_t k = 0; k < 3; k++)
			im->rgb[3 * i + k] = jp2_sample(&j->comps[n == 3 ? k : 0], i);
	return true;
}

static bool read_jp2(TccBytes in, Image *im)
{
	Memory m = {in, 0};
	opj_dparameters_t how;
	opj_image_t *j = NULL;
	opj_codec_t *c = opj_create_decompress(in.p[0] == 0xff ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
	opj_stream_t *s = opj_stream_default_create(OPJ_TRUE);
	opj_set_default_decoder_parameters(&how);
	bool ok = c && s;
	if (ok) {
		opj_stream_set_read_function(s, jp2_read);
		opj_stream_set_skip_function(s, jp2_skip);
		opj_stream_set_seek_function(s, jp2_seek);
		opj_stream_set_user_data(s, &m, NULL);
		opj_stream_set_user_data_length(s, in.n);
		ok = opj_setup_decoder(c, &how) && opj_read_header(s, c, &j) && j->numcomps > 0 &&
		     room(im, (int64_t)j->x1 - j->x0, (int64_t)j->y1 - j->y0);
	}
	if (ok && !im->head)
		ok = opj_decode(c, s, j) && opj_end_decompress(c, s) && jp2_pixels(j, im);
	opj_image_destroy(j);
	opj_stream_destroy(s);
	opj_destroy_codec(c);
	return ok;
}

/* --- BMP: uncompressed, with a palette or in 24 or 32 bits ------------------------------------ */

static uint32_t le(const uint8_t *p, int n)
{
	uint32_t v = 0;
	while (n-- > 0)
		v = v << 8 | p[n];
	return v;
}

static void bmp_row(const uint8_t *row, int bits, const uint8_t *palette, uint32_t colours,
                    int64_t w, uint8_t *to)
{
	for (int64_t x = 0; x < w; x++, to += 3) {
		const uint8_t *bgr = row + x * (bits / 8);
		if (bits <= 8) {
			uint32_t i = row[x * bits / 8] >> (8 - bits - x * bits % 8) & ((1u << bits) - 1);
			bgr = palette + 4 * (i < colours ? i : 0);
		}
		to[0] = bgr[2];
		to[1] = bgr[1];
		to[2] = bgr[0];
	}
}

static bool read_bmp(TccBytes in, Image *im)
{
	if (in.n < 54 || le(in.p + 14, 4) < 40 || le(in.p + 14, 4) > in.n - 14)
		return false;
	int bits = (int)le(in.p + 28, 2);
	uint64_t from = le(in.p + 10, 4), table = 14 + (uint64_t)le(in.p + 14, 4),
		colours = le(in.p + 46, 4);
	int64_t w = (int32_t)le(in.p + 18, 4), h = (int32_t)le(in.p + 22, 4),
		stride = (w * bits + 31) / 32 * 4;
	bool down = h < 0, known = bits == 1 || bits == 4 || bits == 8 || bits == 24 || bits == 32;
	uint32_t packing = le(in.p + 30, 4);
	h = down ? -h : h;
	if (!known || (packing && !(packing == 3 && bits == 32)))
		return false;
	if (bits <= 8 && (!colours || colours > 1u << bits))
		colours = 1u << bits;
	if (!room(im, w, h) || (bits <= 8 && table + 4 * colours > in.n) || from > in.n ||
	    (uint64_t)(stride * h) > in.n - from)
		return false;
	for (int64_t y = 0; y < h && !im->head; y++)
		bmp_row(in.p + from + (uint64_t)(stride * (down ? y : h - 1 - y)), bits, in.p + table,
		        (uint32_t)colours, w, im->rgb + y * w * 3);
	return true;
}

/* --- PNM ------------------------------------------------------------------------------------- */

static bool read_pnm(TccBytes in, Image *im)
{
	const int64_t dims[] = {-1, -1, 3};
	const TccWant want = {.kind = TCC_TENSOR, .dtype = TCC_U8, .rank = 3, .dims = dims};
	TccValue v = {0};
	bool ok = !tcc_pnm_read(in, &want, &v, NULL) &&
		room(im, v.u.tensor.shape[1], v.u.tensor.shape[0]);
	if (ok && !im->head)
		memcpy(im->rgb, tcc_tensor_data(&v.u.tensor), (size_t)(im->w * im->h * 3));
	tcc_value_free(&v);
	return ok;
}

/* --- the routines ----------------------------------------------------------------------------- */

static bool read_image(TccContext *ctx, TccBytes in, Image *im)
{
	static const struct {
		const char *magic;
		int at, n;
		bool (*read)(TccBytes, Image *);
	} formats[] = {
		{"\xff\xd8\xff", 0, 3, read_jpeg}, {"\x89PNG", 0, 4, read_png}, {"WEBP", 8, 4, read_webp},
		{"II*\0", 0, 4, read_tiff}, {"MM\0*", 0, 4, read_tiff}, {"jP  ", 4, 4, read_jp2},
		{"\xff\x4f\xff\x51", 0, 4, read_jp2}, {"BM", 0, 2, read_bmp}, {"P5", 0, 2, read_pnm},
		{"P6", 0, 2, read_pnm},
	};
	for (size_t i = 0; i < TCC_COUNT(formats); i++) {
		uint64_t at = (uint64_t)formats[i].at, n = (uint64_t)formats[i].n;
		if (in.n < at + n || memcmp(in.p + at, formats[i].magic, n))
			continue;
		if (formats[i].read(in, im))
			return true;
		free(im->rgb);
		im->rgb = NULL;
		return host_fail(ctx,
			"a picture is damaged, too large or of an unknown kind of its format");
	}
	return host_fail(ctx, "a picture is of an unknown format");
}

int64_t do_image_shape(TccContext *ctx, const int64_t *a)
{
	TccBytes in = {host_bytes(ctx, a[1], (uint64_t)a[2]), (uint64_t)a[2]};
	Image im = {.head = true};
	int64_t dims[2];
	if (!in.p || !read_image(ctx, in, &im))
		return 0;
	dims[0] = im.h;
	dims[1] = im.w;
	return host_deliver(ctx, a[0], dims, sizeof dims);
}

enum { RGB, BGR, GRAYSCALE };

int64_t do_image_decode(TccContext *ctx, const int64_t *a)
{
	TccBytes in = {host_bytes(ctx, a[1], (uint64_t)a[2]), (uint64_t)a[2]};
	Image im = {0};
	if (!in.p || !read_image(ctx, in, &im))
		return 0;
	int64_t n = im.w * im.h;
	for (int64_t i = 0; i < n; i++) {
		uint8_t *p = im.rgb + 3 * i, r = p[0];
		if (a[3] == GRAYSCALE) {                /* ITU-R BT.601 luma, in 16 bits of fraction */
			im.rgb[i] = (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
		} else if (a[3] == BGR) {
			p[0] = p[2];
			p[2] = r;
		}
	}
	host_deliver(ctx, a[0], im.rgb, (uint64_t)n * (a[3] == GRAYSCALE ? 1 : 3));
	free(im.rgb);
	return 0;
}
