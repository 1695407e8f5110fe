# SPDX-License-Identifier: MIT
# CI of a package: exit codes, files for other programs, and results compared with recorded ones.
small_model && step 'coreml: a package' 'propane convert my-model Model.mlpackage --stateless 16' &&
    step 'coreml: verdict and exit codes' 'propane check Model.mlpackage --target m1,m4 | tee verdict && grep -q "^m4: .*falls back by" verdict; propane check Model.mlpackage --target m4 --strict; [ $? = 3 ]' &&
    step 'coreml: annotations' 'propane check Model.mlpackage --target m4 --format github | grep "^::"' &&
    step 'coreml: SARIF' 'propane check Model.mlpackage --target m4 --format sarif | grep -q 2.1.0' &&
    step 'coreml: a page' 'propane check Model.mlpackage --target m1,m4 --html check.html; propane show Model.mlpackage --html model.html && grep -q "<svg\|<canvas" model.html' &&
    step 'coreml: latency as JSON' 'propane run Model.mlpackage --seed 1 --iterations 5 --json | grep -q median' &&
    step 'coreml: under an M4 rules and rounding' 'propane run Model.mlpackage --seed 1 --device sim:m4 && propane diff Model.mlpackage --seed 1 --device-b sim:m4 --tolerance 0.05' &&
    step 'coreml: beside recorded numbers' 'propane run Model.mlpackage --seed 1 --output recorded && propane diff Model.mlpackage --seed 1 --expect recorded --tolerance 0.001' &&
    step 'coreml: time by the path that an app has' 'propane estimate Model.mlpackage --target m4 | tee row && grep -q "the path coreml" row'
step 'coreml: a wrong path is one clear line' '! propane check Nothing.mlpackage 2> err && [ $(wc -l < err) = 1 ]'
