"""vLLM's engine for engines.py: reads measurements as lines of JSON, answers each with its speed. Runs in vLLM's own
Python environment.

    vllm_engine.py FOLDER eager|compiled
"""
import json
import random
import sys
import time

import vllm


def main():
    folder, mode = sys.argv[1:]
    llm = vllm.LLM(model=folder, dtype="bfloat16", enforce_eager=mode == "eager", max_model_len=8192, max_num_seqs=64,
                   max_num_batched_tokens=2048, enable_prefix_caching=True, disable_log_stats=True)
    numbers = random.Random(1)
    contexts = {}  # tokens -> prompts that the cache holds already

    def prompts(count, tokens):
        return [{"prompt_token_ids": [numbers.randrange(100, 40000) for _ in range(tokens)]} for _ in range(count)]

    def cached_prompts(count, tokens):
        known = contexts.setdefault(tokens, [])
        known += prompts(count - len(known), tokens)
        return known[:count]

    def seconds(batch, tokens):
        settings = vllm.SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        begin = time.perf_counter()
        llm.generate(batch, settings, use_tqdm=False)
        return time.perf_counter() - begin

    def answer(**values):
        print("answer: " + json.dumps(values), flush=True)

    seconds(prompts(1, 64), 4)  # warms up
    answer(version=f"{vllm.__version__}, {mode}")
    for line in sys.stdin:
        what = json.loads(line)
        if "prefill" in what:
            answer(tok_s=what["prefill"] / seconds(prompts(1, what["prefill"]), 1))
            continue
        # Decoding is the difference between many tokens and one; the prompts come from the prefix cache both times.
        batch = cached_prompts(what["batch"], what["context"])
        seconds(batch, 1)
        one = min(seconds(batch, 1) for _ in range(2))
        many = seconds(batch, what["decode"] + 1)
        answer(tok_s=what["batch"] * what["decode"] / (many - one))


if __name__ == "__main__":
    main()
