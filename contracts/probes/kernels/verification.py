"""Plain torch for the compiled CPU kernels that draft a tree of tokens, verify it and keep what was accepted.

A draft of D tokens per request is a tree whose node 0 is the last committed token and whose nodes 1 to D - 1
are the proposals; with topk 1 it is a chain. As in contracts.probes.kernels.reference, each function has the
signature and the effects of its namesake, and tests/test_kernels.py compares it with sglang's own Triton
kernel.
"""

from __future__ import annotations

import torch

from contracts.probes.kernels.columns import columns

FULL_MASK, QLEN_ONLY = 0, 1
"""Layouts of a tree mask: over prefix and tree, or over the tree alone (sglang's `TreeMaskMode`)."""


def build_tree_kernel_efficient_cpu(
    parent_list: torch.Tensor, selected_index: torch.Tensor, verified_seq_len: torch.Tensor,
    tree_mask: torch.Tensor, positions: torch.Tensor, retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor, retrieve_next_sibling: torch.Tensor,
    topk: int, depth: int, draft_token_num: int, tree_mask_mode: int,
) -> None:  # fmt: skip
    """Turn the selected proposals of each request into a tree.

    Proposals are numbered in the order in which they were drafted, `topk` to a parent: number n has as parent
    the root if n < topk, else the proposal `parent_list[request, n // topk]`. `selected_index`
    [requests, D - 1] holds the numbers of those kept, ascending.

    Writes, per request: `positions` [D] of the nodes; `retrieve_index` [D], their rows in the batch;
    `retrieve_next_token` and `retrieve_next_sibling` [D], first child and next sibling of each node, -1 for
    none (the highest numbered child comes first); and `tree_mask`, true where a node may attend to another,
    that is to itself and its ancestors.
    """
    size, begin = draft_token_num, 0
    for request, length in enumerate(verified_seq_len.tolist()):
        parents = _parents(parent_list[request].tolist(), selected_index[request].tolist(), topk)
        sees = torch.eye(size, dtype=torch.bool)
        for node in range(1, size):
            sees[node] |= sees[parents[node]]
        retrieve_index[request] = torch.arange(request * size, (request + 1) * size)
        positions[request * size : (request + 1) * size] = length + sees.sum(1) - 1
        for node in range(size - 1, 0, -1):
            first = int(retrieve_next_token[request, parents[node]])
            if first != -1:
                retrieve_next_sibling[request, node] = first
            retrieve_next_token[request, parents[node]] = node
        prefix = length if tree_mask_mode == FULL_MASK else 0
        rows = tree_mask[begin : begin + size * (prefix + size)].view(size, prefix + size)
        rows[:, prefix:] = sees
        begin += size * (prefix + size)


def _parents(parent_list: list[int], selected: list[int], topk: int) -> list[int]:
    """The parent node of each node; the root is its own."""
    node_of = {number: node for node, number in enumerate(selected, start=1)}
    return [0] + [0 if n < topk else node_of[parent_list[n // topk]] for n in selected]


def verify_tree_greedy_cpu(
    predicts: torch.Tensor, accept_index: torch.Tensor, accept_token_num: torch.Tensor,
    candidates: torch.Tensor, retrive_index: torch.Tensor, retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor, target_predict: torch.Tensor,
) -> None:  # fmt: skip
    """Walk down each request's tree as long as a child is the token that the target ranks first.

    Writes `accept_index` [requests, deepest path], the rows of the accepted nodes, root first and unused
    places left as they are; `accept_token_num` [requests], accepted nodes below the root; and `predicts`, at
    the row of each accepted node, the target's choice after it. (Callers name the arguments, in the
    library's spelling.)
    """
    chosen = target_predict.flatten()
    for request, tokens in enumerate(candidates.tolist()):
        node = accepted = 0
        row = int(retrive_index[request, 0])
        accept_index[request, 0] = row
        while accepted + 1 < accept_index.shape[1]:
            node = int(retrive_next_token[request, node])
            while node != -1 and tokens[node] != int(chosen[row]):
                node = int(retrive_next_sibling[request, node])
            if node == -1:
                break
            predicts[row] = chosen[row]
            row = int(retrive_index[request, node])
            accepted += 1
            accept_index[request, accepted] = row
        predicts[row] = chosen[row]
        accept_token_num[request] = accepted


def fill_bonus_tokens_cpu(
    accept_tokens: torch.Tensor, accept_lens: torch.Tensor, bonus_tokens: torch.Tensor, accept_stride: int
) -> None:
    """Write to `bonus_tokens` [requests] the last of each request's `accept_lens` accepted tokens.

    `accept_tokens` has `accept_stride` places per request.
    """
    last = torch.arange(len(accept_lens)) * accept_stride + accept_lens.long() - 1
    bonus_tokens.copy_(accept_tokens.flatten()[last])


def fill_accept_out_cache_loc_cpu(
    accept_index: torch.Tensor, out_cache_loc: torch.Tensor, accept_out_cache_loc: torch.Tensor
) -> None:
    """Write the cache slots of the accepted rows, in order, to the head of `accept_out_cache_loc`."""
    rows = accept_index[accept_index >= 0].long()
    accept_out_cache_loc[: len(rows)] = out_cache_loc[rows]


def assign_extend_cache_locs_cpu(
    req_pool_indices: torch.Tensor, req_to_token: torch.Tensor, start: torch.Tensor, end: torch.Tensor,
    out_cache_loc: torch.Tensor, pool_len: int,
) -> None:  # fmt: skip
    """Write the slots in columns `start` to `end` of each request's row to `out_cache_loc`, in order."""
    for row, new, place in columns(req_pool_indices, start, end):
        out_cache_loc[place] = req_to_token[row, new].to(out_cache_loc.dtype)


KERNELS = (
    build_tree_kernel_efficient_cpu,
    verify_tree_greedy_cpu,
    fill_bonus_tokens_cpu,
    fill_accept_out_cache_loc_cpu,
    assign_extend_cache_locs_cpu,
)
