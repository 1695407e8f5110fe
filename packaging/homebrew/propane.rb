# SPDX-License-Identifier: MIT
# Untried: nobody has run this on a Mac yet. `make dist` writes a copy with the archive's address (RELEASE_URL) and checksum
# into build/dist. This file builds from a clone with --HEAD.
class Propane < Formula
  desc "Train, run and check neural networks as MIL programs"
  homepage "https://propane.invalid"
  url "file:///propane-0.2.0.tar.gz" # RELEASE_URL
  sha256 "0000000000000000000000000000000000000000000000000000000000000000" # of the archive
  license "MIT"

  depends_on "pkgconf" => :build
  depends_on "jansson"
  depends_on "jpeg-turbo"
  depends_on "libmicrohttpd"
  depends_on "libpng"
  depends_on "pcre2"
  depends_on "protobuf-c"
  depends_on "utf8proc"

  uses_from_macos "libedit"
  uses_from_macos "zlib"

  def install
    system "make", "install", "PREFIX=#{prefix}",
           "BASH_COMPLETIONS=#{bash_completion}", "ZSH_COMPLETIONS=#{zsh_completion}",
           "FISH_COMPLETIONS=#{fish_completion}", "MANDIR=#{man}"
  end

  service do
    run [opt_bin/"propane", "serve", var/"propane/model"]
    keep_alive crashed: true
  end

  test do
    (testpath/"text").write("a line of text, and one more\n" * 200)
    system bin/"propane", "train", "--data", "text", "--kind", "bytes", "--layers", "1", "--width", "16",
           "--heads", "2", "--context", "16", "--batch", "2", "--steps", "3", "--run", "run"
    assert_match version.to_s, shell_output("#{bin}/propane version")
  end
end
