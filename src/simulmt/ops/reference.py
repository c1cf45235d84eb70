"""Expected alignment and expected attention as loops that read like their equations.

Ordinary autograd, any device, any number of derivatives. Tests compare the other backends with this
one. `simulmt.ops` checks the arguments and reshapes them to (N, T, S) or (N, S).
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad


def alignment(p: Float[Tensor, "N T S"], initial: Float[Tensor, "N S"]) -> Float[Tensor, "N T S"]:
    """Expected alignment: mass flows from left to right, and a share p_ij of it stays at j.

    q_ij = (1 - p_i,j-1) q_i,j-1 + alpha_i-1,j and alpha_ij = p_ij q_ij (Raffel et al. 2017).
    """
    above = initial
    rows = []
    for p_i in p.unbind(-2):
        passing = torch.zeros_like(above[..., 0])
        row = []
        for j in range(p.shape[-1]):
            q_ij = passing + above[..., j]
            row.append(p_i[..., j] * q_ij)
            passing = (1 - p_i[..., j]) * q_ij
        above = torch.stack(row, dim=-1)
        rows.append(above)
    return torch.stack(rows, dim=-2) if rows else torch.zeros_like(p)


def lookback(alpha: Float[Tensor, "N S"], energy: Float[Tensor, "N S"]) -> Float[Tensor, "N S"]:
    """Softmax over everything up to the stop, averaged over alpha's stops (MILk eq. 14).

    With L_k = logsumexp(u_1..u_k): R_S = alpha_S, R_j = alpha_j + exp(L_j - L_j+1) R_j+1, and
    beta_j = exp(u_j - L_j) R_j.
    """
    u = energy.unbind(-1)
    L = [u[0]]
    for u_j in u[1:]:
        L.append(torch.logaddexp(L[-1], u_j))
    R = [alpha[..., -1]]
    for j in reversed(range(len(u) - 1)):
        R.append(alpha[..., j] + torch.exp(L[j] - L[j + 1]) * R[-1])
    R.reverse()
    return torch.stack([torch.exp(u[j] - L[j]) * R[j] for j in range(len(u))], dim=-1)


def chunkwise(
    alpha: Float[Tensor, "N S"], energy: Float[Tensor, "N S"], chunk: int
) -> Float[Tensor, "N S"]:
    """Softmax over the last `chunk` positions up to the stop (MoChA, Chiu & Raffel 2018).

    beta_j = sum_{k=j}^{j+c-1} alpha_k exp(u_j) / sum_{l=k-c+1}^{k} exp(u_l).
    """
    # windows[k, m] = u_{k-c+1+m}, -inf before the first position
    windows = pad(energy, (chunk - 1, 0), value=-torch.inf).unfold(-1, chunk, 1)  # (N, S, c)
    spent = alpha.unsqueeze(-1) * torch.softmax(windows, dim=-1)
    beta = torch.zeros_like(alpha)
    for back in range(chunk):  # what the chunk that ends at k = j + back spends on j
        beta = beta + pad(spent[..., back:, chunk - 1 - back], (0, back))
    return beta
