/**
 * Replaces the package `global-agent` (package.json, `overrides`). Only the install script of onnxruntime-node uses
 * that package, and calls `bootstrap` first. The script would fetch hundreds of megabytes for GPUs, so this call ends
 * the script. Runs in npm's processes.
 */
exports.bootstrap = () => process.exit(0);
