/* The families of operators. A family is a file beside this one. */
#include "ops.h"

const Op *const op_families[] = {
	ops_elementwise, ops_shape, ops_move, ops_index, ops_order, ops_control, ops_resize,
	ops_random, ops_reduce, ops_contract, ops_conv, ops_pool, ops_norm, ops_quant, ops_rnn,
	ops_attention, ops_loss, ops_signal, ops_ml, ops_svm, ops_trees, ops_contrib,
	ops_contrib_attention, ops_contrib_fused, ops_contrib_group, ops_contrib_rotary,
	ops_contrib_packed, ops_contrib_decoder, ops_contrib_nbits, ops_contrib_ordered,
	ops_contrib_paged, ops_contrib_varlen, ops_sequence, ops_text, ops_contrib_more,
	ops_contrib_moe, ops_contrib_tokens, ops_contrib_mixed, ops_matrix, ops_attn_lstm, ops_search,
	ops_gradient,
	NULL
};
