"""Write a Llama of a hundred thousand random weights, its byte-level tokenizer and chat template.

Runs in the engine's own environment (torch, transformers, tokenizers). usage: tiny_model.py DIR
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

MAX_POSITIONS = 4096
VOCABULARY = 320
SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
CHAT_TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}: {{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant: {% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    bytes_only = Tokenizer(models.BPE())
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL.values()),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bytes_only.train_from_iterator(["a request and its reply, token by token"], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=bytes_only, **SPECIAL)
    fast.chat_template = CHAT_TEMPLATE
    return fast


def model(words: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=MAX_POSITIONS,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    return LlamaForCausalLM(config).to(torch.float32)


def main(folder: str) -> None:
    words = tokenizer()
    words.save_pretrained(folder)
    model(words).save_pretrained(folder)


main(sys.argv[1])
