"""Heads on top of an encoder: dense layers on its pooled vector or on every piece, and KLUE-baseline's biaffine parser.

Shapes: B inputs (sentences), L pieces, H hidden size, W words, P = W + 1 possible heads (the root first), R relations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from korealbert.finetune.task import EncoderOutput, Parse, SlotScores, Spans, Words

_INITIAL_STD = 0.02
"""Standard deviation of a fresh dense layer, as in BERT and ALBERT."""
_SHRINKAGE = 0.1
"""Share of the vectors' mean variance that is added to each variance before whitening."""


def _dense(inputs: int, outputs: int, bias: float = 0.0) -> nn.Linear:
    """Make a dense layer initialised as in BERT."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=_INITIAL_STD)
    nn.init.constant_(layer.bias, bias)
    return layer


class PooledHead(nn.Module):
    """Dropout and a dense layer on the pooled vector: [B, H] -> [B, outputs].

    ``hidden``: first dropout, another dense layer and GELU, as in transformers' ElectraClassificationHead; ELECTRA's pooled
    vector is its first piece's.
    """

    def __init__(self, hidden_size: int, outputs: int, dropout: float, bias: float = 0.0, *, hidden: bool = False) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = _dense(hidden_size, outputs, bias)
        self.hidden = _dense(hidden_size, hidden_size) if hidden else None

    def forward(self, encoded: EncoderOutput) -> torch.Tensor:
        """Return logits [B, outputs]."""
        vector_BH = encoded.pooled_BH
        if self.hidden is not None:
            vector_BH = nn.functional.gelu(self.hidden(self.dropout(vector_BH)))
        logits: torch.Tensor = self.dense(self.dropout(vector_BH))
        return logits


class ChoiceHead(PooledHead):
    """A pooled head with one logit per choice of a question: [B * choices, H] -> [B, choices]."""

    def forward(self, encoded: EncoderOutput) -> torch.Tensor:
        """Return logits [B, choices]."""
        return super().forward(encoded).view(len(encoded.features), -1)


class PairHead(nn.Module):
    """Dropout and a dense layer on [u, v, |u − v|] of the two sentences of a pair: [2B, H] -> [B, outputs].

    This is how Sentence-BERT is trained on NLI (Reimers and Gurevych 2019, section 3).
    """

    def __init__(self, hidden_size: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = _dense(3 * hidden_size, outputs)

    def forward(self, encoded: EncoderOutput) -> torch.Tensor:
        """Return logits [B, outputs]."""
        left_BH, right_BH = _sides(encoded)
        logits: torch.Tensor = self.dense(self.dropout(torch.cat([left_BH, right_BH, (left_BH - right_BH).abs()], dim=1)))
        return logits


class CosineHead(nn.Module):
    """The cosine of a pair's vectors, scaled linearly so that 0 is ``low`` and 1 is ``high``: [2B, H] -> [B, 1]."""

    def __init__(self, low: float, high: float) -> None:
        super().__init__()
        self.low, self.high = low, high

    def forward(self, encoded: EncoderOutput) -> torch.Tensor:
        """Return scores [B, 1]."""
        left_BH, right_BH = _sides(encoded)
        cosine_B = nn.functional.cosine_similarity(left_BH, right_BH)
        return (self.low + (self.high - self.low) * cosine_B)[:, None]


_ROWS = 65_536
"""Vectors that are whitened at a time."""


class WhitenedHead(nn.Module):
    """A linear map of the pooled vectors, initially the identity, before another head: [B, H] -> [B, H] -> its output."""

    def __init__(self, head: nn.Module, hidden_size: int) -> None:
        super().__init__()
        self.head = head
        self.map = nn.Linear(hidden_size, hidden_size)
        nn.init.eye_(self.map.weight)
        nn.init.zeros_(self.map.bias)

    @torch.no_grad()
    def whiten(self, vectors_NH: torch.Tensor) -> None:
        """Fit the map so that these vectors get mean 0, uncorrelated components and almost equal variances.

        It is the whitening of Su et al. (2021, arXiv 2103.15316), except that a tenth of the mean variance is added to each
        variance, since directions of small variance are mostly noise. The sum of the variances stays the same.
        """
        parts, number = torch.split(vectors_NH, _ROWS), len(vectors_NH)  # A copy of all in fp64 may be too large.
        mean_H = torch.stack([part_KH.double().sum(0) for part_KH in parts]).sum(0) / number
        products_HH = sum((part_KH - mean_H).T @ (part_KH - mean_H) for part_KH in parts)
        variances_H, directions_HH = torch.linalg.eigh(products_HH / number)
        scales_H = (variances_H + _SHRINKAGE * variances_H.mean()).rsqrt()
        scales_H *= (variances_H.sum() / (variances_H * scales_H**2).sum()).sqrt()
        map_HH = (directions_HH * scales_H) @ directions_HH.T
        self.map.weight.copy_(map_HH)
        self.map.bias.copy_(-map_HH @ mean_H)

    def forward(self, encoded: EncoderOutput) -> torch.Tensor:
        """Return the logits of the head."""
        logits: torch.Tensor = self.head(replace(encoded, pooled_BH=self.map(encoded.pooled_BH)))
        return logits


class ContrastHead(nn.Module):
    """Scaled cosines of each premise with every hypothesis of a batch: [3B, H] -> [B, 2B]. Column 0 is the premise's own."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, encoded: EncoderOutput) -> torch.Tensor:
        """Return logits [B, 2B]: of entailed hypotheses, rotated so that the premise's own is first, then of the others."""
        premise_BH, entailed_BH, contrary_BH = _sides(encoded, 3)
        size = len(premise_BH)
        hypotheses_2BH = nn.functional.normalize(torch.cat([entailed_BH, contrary_BH]), dim=1)
        cosines_B2B = nn.functional.normalize(premise_BH, dim=1) @ hypotheses_2BH.T
        row_B = torch.arange(size, device=premise_BH.device)
        rotated_BB = (row_B[:, None] + row_B) % size
        own_first_B2B = torch.cat([cosines_B2B[:, :size].gather(1, rotated_BB), cosines_B2B[:, size:]], dim=1)
        return self.scale * own_first_B2B


def _sides(encoded: EncoderOutput, sentences: int = 2) -> tuple[torch.Tensor, ...]:
    """Split the pooled vectors into those [B, H] of first sentences, of second ones, …; the rows of an example are adjacent."""
    return encoded.pooled_BH.view(len(encoded.features), sentences, -1).unbind(1)


class PieceHead(nn.Module):
    """Dropout and a dense layer on every piece: [B, L, H] -> [B, L, outputs]."""

    def __init__(self, hidden_size: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = _dense(hidden_size, outputs)

    def forward(self, encoded: EncoderOutput) -> torch.Tensor:
        """Return logits [B, L, outputs]."""
        logits: torch.Tensor = self.dense(self.dropout(encoded.hidden_BLH))
        return logits


class SpanHead(nn.Module):
    """Start and end logits of every piece, and a logit of "no answer" from the pooled vector."""

    def __init__(self, hidden_size: int, dropout: float) -> None:
        super().__init__()
        self.pieces = PieceHead(hidden_size, 2, 0.0)
        self.unanswerable = PooledHead(hidden_size, 1, dropout)

    def forward(self, encoded: EncoderOutput) -> Spans:
        """Return logits [B, L, 2] and [B]."""
        return Spans(self.pieces(encoded), self.unanswerable(encoded)[:, 0])


class SlotHead(nn.Module):
    """Scores the values of each slot: [B, L, H] -> [B, V], V values of all S slots.

    Each slot has a query vector that attends to the input's pieces (scaled dot products). The weighted mean goes through a
    dense layer with GELU, which all slots share, and a dense layer of the slot.
    """

    def __init__(self, hidden_size: int, values: Mapping[str, tuple[str, ...]], dropout: float) -> None:
        super().__init__()
        self.values = dict(values)
        self.question_SH = nn.Parameter(torch.empty(len(values), hidden_size))
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.outputs = nn.Linear(hidden_size, sum(map(len, values.values())))
        for weight in (self.question_SH, self.dense.weight, self.outputs.weight):
            nn.init.normal_(weight, std=_INITIAL_STD)
        nn.init.zeros_(self.dense.bias)
        nn.init.zeros_(self.outputs.bias)

    def forward(self, encoded: EncoderOutput) -> SlotScores:
        """Return the scores of the values, slot by slot."""
        hidden_BLH = encoded.hidden_BLH
        lengths_B = torch.tensor([len(feature.input_ids) for feature in encoded.features], device=hidden_BLH.device)
        padding_BL = torch.arange(hidden_BLH.shape[1], device=hidden_BLH.device) >= lengths_B[:, None]
        asked_BSL = self.question_SH @ hidden_BLH.transpose(1, 2) / hidden_BLH.shape[-1] ** 0.5
        found_BSH = asked_BSL.masked_fill(padding_BL[:, None], -torch.inf).softmax(dim=-1) @ hidden_BLH
        found_BSH = self.dropout(nn.functional.gelu(self.dense(found_BSH)))
        sizes = [len(values) for values in self.values.values()]
        own = zip(
            torch.split(self.outputs.weight, sizes), torch.split(self.outputs.bias, sizes), found_BSH.unbind(1), strict=True
        )
        scores_BV = torch.cat([found_BH @ weight_CH.T + bias_C for weight_CH, bias_C, found_BH in own], dim=-1)
        return SlotScores(scores_BV, [self.values] * len(encoded.features))


_LSTM_SIZE = 768
_ARC_SIZE = 512
_RELATION_SIZE = 256
_POS_SIZE = 256
_DROPOUT = 0.33
"""Sizes and dropout of KLUE-baseline."""


class _SharedDropout(nn.Module):
    """Dropout of the same features in all words of a sentence."""

    def forward(self, values_BWX: torch.Tensor) -> torch.Tensor:
        """Return values of the same shape."""
        if not self.training:
            return values_BWX
        keep_B1X = torch.empty_like(values_BWX[:, :1]).bernoulli_(1 - _DROPOUT) / (1 - _DROPOUT)
        return values_BWX * keep_B1X


class Bilinear(nn.Bilinear):
    """torch's bilinear layer as one matrix product, which is thirty times as fast on a CPU."""

    def forward(self, left_BWX: torch.Tensor, right_BWY: torch.Tensor) -> torch.Tensor:
        """Return scores [B, W, R]."""
        flat_XRY = self.weight.transpose(0, 1).flatten(1)
        left_BWRY = (left_BWX @ flat_XRY).view(*left_BWX.shape[:-1], self.out_features, self.in2_features)
        scores_BWR: torch.Tensor = (left_BWRY @ right_BWY[..., None]).squeeze(-1) + self.bias
        return scores_BWR


class BiaffineParser(nn.Module):
    """KLUE-baseline's parser: words, BiLSTM, LSTM decoder, biaffine scorers.

    A word is its concatenated first and last piece, the root is ``[CLS]`` twice. Relations are scored to the gold head in
    training and to the best head in evaluation. Heads are chosen independently of each other, not as a tree.
    """

    def __init__(self, hidden_size: int, relations: int, parts_of_speech: int | None) -> None:
        super().__init__()
        # The additional part of speech is for the root and for unknown ones.
        self.pos = nn.Embedding(parts_of_speech + 1, _POS_SIZE) if parts_of_speech is not None else None
        width = 2 * hidden_size + (_POS_SIZE if self.pos else 0)
        self.encoder = nn.LSTM(width, _LSTM_SIZE, batch_first=True, bidirectional=True)
        self.start = nn.Linear(2 * _LSTM_SIZE, _LSTM_SIZE)
        self.source = nn.Linear(2 * _LSTM_SIZE, _LSTM_SIZE)
        self.decoder = nn.LSTM(_LSTM_SIZE, _LSTM_SIZE, batch_first=True)
        self.dropout = _SharedDropout()
        self.head_arc = nn.Linear(2 * _LSTM_SIZE, _ARC_SIZE)
        self.head_relation = nn.Linear(2 * _LSTM_SIZE, _RELATION_SIZE)
        self.word_arc = nn.Linear(_LSTM_SIZE, _ARC_SIZE)
        self.word_relation = nn.Linear(_LSTM_SIZE, _RELATION_SIZE)
        self.arc = nn.Parameter(torch.empty(_ARC_SIZE, _ARC_SIZE))
        self.arc_head = nn.Linear(_ARC_SIZE, 1)
        self.arc_word = nn.Linear(_ARC_SIZE, 1, bias=False)
        self.relation = Bilinear(_RELATION_SIZE, _RELATION_SIZE, relations)
        self.relation_head = nn.Linear(_RELATION_SIZE, relations, bias=False)
        self.relation_word = nn.Linear(_RELATION_SIZE, relations, bias=False)
        for scorer in (self.arc_head, self.arc_word, self.relation, self.relation_head, self.relation_word):
            nn.init.xavier_uniform_(scorer.weight)
            if scorer.bias is not None:
                nn.init.zeros_(scorer.bias)
        nn.init.xavier_uniform_(self.arc)

    def forward(self, encoded: EncoderOutput) -> Parse:
        """Return the scores of sentences; the features' layouts are their ``Words``."""
        sentences: list[Words] = [feature.layout for feature in encoded.features]
        device = encoded.hidden_BLH.device
        counts_B = torch.tensor([len(words.first) for words in sentences])
        width = int(counts_B.max())
        words_BPX = self._words(encoded.hidden_BLH, sentences, width)
        packed = pack_padded_sequence(words_BPX, counts_B + 1, batch_first=True, enforce_sorted=False)
        states, (_, cells) = self.encoder(packed)
        context_BPX = self.dropout(pad_packed_sequence(states, batch_first=True)[0])
        cell_1BX = self.start(torch.cat([cells[0], cells[1]], dim=-1))[None]
        source_BWX = nn.functional.elu(self.source(context_BPX[:, 1:]))
        packed = pack_padded_sequence(source_BWX, counts_B, batch_first=True, enforce_sorted=False)
        states, _ = self.decoder(packed, (torch.tanh(cell_1BX), cell_1BX))
        decoded_BWX = self.dropout(pad_packed_sequence(states, batch_first=True)[0])

        arc_head_BPA, arc_word_BWA = self._elu(self.head_arc, context_BPX), self._elu(self.word_arc, decoded_BWX)
        arcs_BWP = arc_word_BWA @ self.arc @ arc_head_BPA.transpose(1, 2)
        arcs_BWP = arcs_BWP + self.arc_word(arc_word_BWA) + self.arc_head(arc_head_BPA).transpose(1, 2)
        beyond_BP = torch.arange(width + 1)[None] > counts_B[:, None]
        arcs_BWP = arcs_BWP.masked_fill(beyond_BP.to(device)[:, None], -torch.inf)

        heads_BW = _padded([words.heads for words in sentences], width).to(device) if self.training else arcs_BWP.argmax(-1)
        to_head_BPX = self._elu(self.head_relation, context_BPX)
        chosen_BWX = to_head_BPX.gather(1, heads_BW[..., None].expand(-1, -1, to_head_BPX.shape[-1]))
        word_BWX = self._elu(self.word_relation, decoded_BWX)
        relations_BWR = self.relation(word_BWX, chosen_BWX) + self.relation_word(word_BWX) + self.relation_head(chosen_BWX)
        return Parse(arcs_BWP, relations_BWR)

    def _words(self, hidden_BLH: torch.Tensor, sentences: Sequence[Words], width: int) -> torch.Tensor:
        """Return the word vectors [B, P, 2H], or with parts of speech [B, P, 2H + POS_SIZE]."""
        parts = []
        for positions in ([words.first for words in sentences], [words.last for words in sentences]):
            index_BP = _padded([[0, *row] for row in positions], width + 1).to(hidden_BLH.device)
            parts.append(hidden_BLH.gather(1, index_BP[..., None].expand(-1, -1, hidden_BLH.shape[-1])))
        if self.pos is not None:
            root = self.pos.num_embeddings - 1
            pos_BP = _padded([[root, *words.pos] for words in sentences], width + 1).to(hidden_BLH.device)
            parts.append(nn.functional.dropout1d(self.pos(pos_BP), _DROPOUT, self.training))  # of all of a word's
        return torch.cat(parts, dim=-1)

    @staticmethod
    def _elu(layer: nn.Module, values: torch.Tensor) -> torch.Tensor:
        return nn.functional.elu(layer(values))


def _padded(rows: Sequence[Sequence[int]], width: int) -> torch.Tensor:
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
