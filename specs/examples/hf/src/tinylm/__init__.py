"""A GPT-2 with random weights and a tokenizer of single bytes, made on the spot: nothing is downloaded."""
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast


def save(folder, seed=0):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate([*alphabet, "<|endoftext|>"])}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(folder)
    torch.manual_seed(seed)
    size = len(alphabet) + 1
    config = GPT2Config(vocab_size=size, n_positions=256, n_embd=16, n_layer=2, n_head=2, bos_token_id=size - 1, eos_token_id=size - 1)
    GPT2LMHeadModel(config).save_pretrained(folder)
