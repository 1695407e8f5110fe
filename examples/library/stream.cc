/* SPDX-License-Identifier: MIT
 * Generates text from C++ and prints each piece as it becomes certain: stream MODEL PROMPT [IDS]. Handles free
 * themselves, and a lambda is the callback.
 */
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "propane.h"

template <typename T, void (*end)(T *)> struct ends {
    void operator()(T *object) const { end(object); }
};
using model = std::unique_ptr<propane_model, ends<propane_model, propane_model_free>>;
using tokenizer = std::unique_ptr<propane_tokenizer, ends<propane_tokenizer, propane_tokenizer_free>>;
using generator = std::unique_ptr<propane_generator, ends<propane_generator, propane_generator_free>>;

static void check(propane_status status, const propane_error &err) {
    if (status != PROPANE_OK) throw std::runtime_error(err.text);
}

/* No exception may pass through the library, which is C. An exception in the callback ends the text and is rethrown
 * afterwards. */
struct sink {
    std::function<void(std::string_view)> write;
    std::exception_ptr problem;
    static bool take(void *context, const propane_token *token) {
        auto *self = static_cast<sink *>(context);
        try {
            self->write({token->text, token->length});
            return true;
        } catch (...) {
            self->problem = std::current_exception();
            return false;
        }
    }
};

static propane_generation write_text(const char *path, std::string_view prompt, int64_t count, sink &to) {
    propane_error err{};
    propane_model *m = nullptr;
    propane_tokenizer *t = nullptr;
    propane_generator *g = nullptr;
    check(propane_model_open(path, nullptr, &m, &err), err);
    const model held_model(m);
    check(propane_model_tokenizer(m, &t, &err), err);
    const tokenizer held_tokenizer(t);
    check(propane_generator_create(m, t, nullptr, &g, &err), err);
    const generator held_generator(g);
    propane_sampling sampling{};
    sampling.size = sizeof sampling;
    propane_sampling_default(&sampling);
    sampling.count = count;
    sampling.temperature = 0;
    propane_generation done{};
    done.size = sizeof done;
    check(propane_generate(g, prompt.data(), prompt.size(), &sampling, sink::take, &to, &done, &err), err);
    if (to.problem) std::rethrow_exception(to.problem);
    return done;
}

int main(int argc, char **argv) try {
    if (argc < 3 || argc > 4) {
        std::cerr << "usage: stream MODEL PROMPT [IDS]\n";
        return 2;
    }
    sink to{[](std::string_view piece) { std::cout << piece << std::flush; }, nullptr};
    const propane_generation done = write_text(argv[1], argv[2], argc > 3 ? std::atoll(argv[3]) : 40, to);
    std::cout << "\n(" << done.made << " ids, ended by " << propane_finish_name(done.finish) << ")\n";
    return 0;
} catch (const std::exception &problem) {
    std::cerr << "stream: " << problem.what() << '\n';
    return 1;
}
