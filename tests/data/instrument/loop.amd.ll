; ModuleID = 'kernel'
target triple = "amdgcn-amd-amdhsa"

; Function Attrs: nounwind
define amdgpu_kernel void @loop(ptr addrspace(1) %0, i32 %1, ptr addrspace(1) nofree readnone captures(none) %2) local_unnamed_addr #0 {
  %4 = tail call i32 asm sideeffect "// proton.record start whole%20loop", "=v"() #1
  %5 = icmp sgt i32 %1, 0
  br i1 %5, label %.lr.ph, label %._crit_edge

.lr.ph:                                           ; preds = %3, %.lr.ph
  %6 = phi i32 [ %12, %.lr.ph ], [ 0, %3 ]
  %7 = tail call i32 asm sideeffect "// proton.record start load", "=v"() #1
  %8 = load volatile i32, ptr addrspace(1) %0, align 4
  %9 = tail call i32 asm sideeffect "// proton.record end load", "=v"() #1
  %10 = tail call i32 asm sideeffect "// proton.event start copy", "=v"() #1
  %11 = add i32 %6, %8
  %12 = add nuw nsw i32 %11, 1
  %13 = icmp slt i32 %12, %1
  br i1 %13, label %.lr.ph, label %._crit_edge, !llvm.loop !0

._crit_edge:                                      ; preds = %.lr.ph, %3
  %14 = tail call i32 asm sideeffect "// proton.record end whole%20loop", "=v"() #1
  ret void
}

attributes #0 = { nounwind "amdgpu-no-workgroup-id-x" "amdgpu-no-workgroup-id-y" "amdgpu-no-dispatch-id" "amdgpu-no-implicitarg-ptr" }
attributes #1 = { nounwind }

!0 = distinct !{!0}
