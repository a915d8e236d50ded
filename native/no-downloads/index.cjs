/**
 * Stands in for `global-agent` (package.json, `overrides`). Only the install script of onnxruntime-node uses that package, and begins
 * with this call. The script would fetch hundreds of megabytes for GPUs, so the call ends it. npm's processes.
 */
exports.bootstrap = () => process.exit(0);
