; ModuleID = 'kernel'
target triple = "amdgcn-amd-amdhsa"

; Function Attrs: nounwind
@global_smem = external addrspace(3) global [0 x i8], align 16

define amdgpu_kernel void @loop(ptr addrspace(1) %0, i32 %1, ptr addrspace(1) nofree %2) local_unnamed_addr #0 {
  %proton.tid = call i32 @llvm.amdgcn.workitem.id.x()
  %proton.w = lshr i32 %proton.tid, 6
  %proton.warp = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %proton.w)
  %proton.bit = shl i32 1, %proton.warp
  %proton.below = sub i32 %proton.bit, 1
  %proton.before = and i32 %proton.below, 15
  %proton.nth = call i32 @llvm.ctpop.i32(i32 %proton.before)
  %proton.mine = and i32 %proton.bit, 15
  %proton.sampled = icmp ne i32 %proton.mine, 0
  %proton.hidden = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %proton.nx = load i32, ptr addrspace(4) %proton.hidden, align 4
  %proton.hidden.y = getelementptr i8, ptr addrspace(4) %proton.hidden, i64 4
  %proton.ny = load i32, ptr addrspace(4) %proton.hidden.y, align 4
  %proton.cx = call i32 @llvm.amdgcn.workgroup.id.x()
  %proton.cy = call i32 @llvm.amdgcn.workgroup.id.y()
  %proton.cz = call i32 @llvm.amdgcn.workgroup.id.z()
  %proton.r0 = mul i32 %proton.cz, %proton.ny
  %proton.r1 = add i32 %proton.r0, %proton.cy
  %proton.r2 = mul i32 %proton.r1, %proton.nx
  %proton.cta = add i32 %proton.r2, %proton.cx
  %proton.slot = udiv i32 %proton.cta, 1
  %proton.left = urem i32 %proton.cta, 1
  %proton.turn = icmp eq i32 %proton.left, 0
  %proton.there = icmp ne ptr addrspace(1) %2, null
  %proton.on0 = and i1 %proton.sampled, %proton.turn
  %proton.on = and i1 %proton.on0, %proton.there
  %proton.unit = select i1 %proton.on0, i32 %proton.nth, i32 0
  %proton.skip = mul i32 %proton.unit, 4112
  %proton.slot64 = zext i32 %proton.slot to i64
  %proton.far = mul i64 %proton.slot64, 16768
  %proton.at = getelementptr i8, ptr addrspace(1) %2, i64 %proton.far
  %proton.skip64 = zext i32 %proton.skip to i64
  %proton.near = add i64 %proton.skip64, 256
  %proton.ring.global = getelementptr i8, ptr addrspace(1) %proton.at, i64 %proton.near
  %proton.skip.shared = add i32 %proton.skip, 0
  %proton.ring = getelementptr i8, ptr addrspace(3) @global_smem, i32 %proton.skip.shared
  %proton.start.time = call i64 @llvm.readsteadycounter()
  %proton.start.clock = call i64 @llvm.readcyclecounter()
  call void @llvm.amdgcn.sched.barrier(i32 0)
  %proton.t.4 = call i64 @llvm.readcyclecounter()
  call void @llvm.amdgcn.sched.barrier(i32 0)
  %4 = trunc i64 %proton.t.4 to i32
  %proton.p.0 = getelementptr i8, ptr addrspace(3) %proton.ring, i32 0
  %proton.v.0 = insertelement <2 x i32> poison, i32 %4, i64 0
  %proton.x.0 = insertelement <2 x i32> %proton.v.0, i32 16777216, i64 1
  store <2 x i32> %proton.x.0, ptr addrspace(3) %proton.p.0, align 8
  %5 = icmp sgt i32 %1, 0
  br i1 %5, label %.lr.ph, label %._crit_edge

.lr.ph:                                           ; preds = %3, %.lr.ph
  %proton.i.1 = phi i32 [ 8, %3 ], [ %proton.n.1, %.lr.ph ]
  %6 = phi i32 [ %12, %.lr.ph ], [ 0, %3 ]
  call void @llvm.amdgcn.sched.barrier(i32 0)
  %proton.t.7 = call i64 @llvm.readcyclecounter()
  call void @llvm.amdgcn.sched.barrier(i32 0)
  %7 = trunc i64 %proton.t.7 to i32
  %8 = load volatile i32, ptr addrspace(1) %0, align 4
  call void @llvm.amdgcn.sched.barrier(i32 0)
  %proton.t.9 = call i64 @llvm.readcyclecounter()
  call void @llvm.amdgcn.sched.barrier(i32 0)
  %9 = trunc i64 %proton.t.9 to i32
  %proton.m.1 = and i32 %proton.i.1, 4095
  %proton.a.1 = getelementptr i8, ptr addrspace(3) %proton.ring, i32 %proton.m.1
  %proton.n.1 = add i32 %proton.i.1, 16
  %proton.d.2 = sub i32 %9, %7
  %proton.l.2 = icmp ult i32 %proton.d.2, 16777215
  %proton.c.2 = select i1 %proton.l.2, i32 %proton.d.2, i32 16777215
  %proton.w.2 = or disjoint i32 %proton.c.2, 33554432
  %proton.p.2 = getelementptr i8, ptr addrspace(3) %proton.a.1, i32 0
  %proton.v.2 = insertelement <2 x i32> poison, i32 %7, i64 0
  %proton.x.2 = insertelement <2 x i32> %proton.v.2, i32 %proton.w.2, i64 1
  store <2 x i32> %proton.x.2, ptr addrspace(3) %proton.p.2, align 8
  %10 = add i32 %9, 0
  %proton.p.3 = getelementptr i8, ptr addrspace(3) %proton.a.1, i32 8
  %proton.v.3 = insertelement <2 x i32> poison, i32 %9, i64 0
  %proton.x.3 = insertelement <2 x i32> %proton.v.3, i32 50331648, i64 1
  store <2 x i32> %proton.x.3, ptr addrspace(3) %proton.p.3, align 8
  %11 = add i32 %6, %8
  %12 = add nuw nsw i32 %11, 1
  %13 = icmp slt i32 %12, %1
  br i1 %13, label %.lr.ph, label %._crit_edge, !llvm.loop !0

._crit_edge:                                      ; preds = %.lr.ph, %3
  %proton.i.2 = phi i32 [ 8, %3 ], [ %proton.n.1, %.lr.ph ]
  call void @llvm.amdgcn.sched.barrier(i32 0)
  %proton.t.14 = call i64 @llvm.readcyclecounter()
  call void @llvm.amdgcn.sched.barrier(i32 0)
  %14 = trunc i64 %proton.t.14 to i32
  %proton.m.2 = and i32 %proton.i.2, 4095
  %proton.a.2 = getelementptr i8, ptr addrspace(3) %proton.ring, i32 %proton.m.2
  %proton.n.2 = add i32 %proton.i.2, 8
  %proton.p.4 = getelementptr i8, ptr addrspace(3) %proton.a.2, i32 0
  %proton.v.4 = insertelement <2 x i32> poison, i32 %14, i64 0
  %proton.x.4 = insertelement <2 x i32> %proton.v.4, i32 67108864, i64 1
  store <2 x i32> %proton.x.4, ptr addrspace(3) %proton.p.4, align 8
  br label %proton.fin

proton.fin:
  br i1 %proton.on, label %proton.out, label %proton.done

proton.out:
  %proton.end.time = call i64 @llvm.readsteadycounter()
  %proton.end.clock = call i64 @llvm.readcyclecounter()
  %proton.lane = and i32 %proton.tid, 63
  %proton.first = shl i32 %proton.lane, 3
  %proton.less = icmp ult i32 %proton.n.2, 4112
  %proton.bytes = select i1 %proton.less, i32 %proton.n.2, i32 4112
  %proton.any = icmp ult i32 %proton.first, %proton.bytes
  br i1 %proton.any, label %proton.copy, label %proton.copied

proton.copy:
  %proton.k = phi i32 [ %proton.first, %proton.out ], [ %proton.k.next, %proton.copy ]
  %proton.k.from = getelementptr i8, ptr addrspace(3) %proton.ring, i32 %proton.k
  %proton.k.to = getelementptr i8, ptr addrspace(1) %proton.ring.global, i32 %proton.k
  %proton.k.value = load <2 x i32>, ptr addrspace(3) %proton.k.from, align 8
  store <2 x i32> %proton.k.value, ptr addrspace(1) %proton.k.to, align 8
  %proton.k.next = add i32 %proton.k, 512
  %proton.k.more = icmp ult i32 %proton.k.next, %proton.bytes
  br i1 %proton.k.more, label %proton.copy, label %proton.copied

proton.copied:
  %proton.last = call i64 @llvm.readcyclecounter()
  %proton.spent = sub i64 %proton.last, %proton.end.clock
  %proton.spent32 = trunc i64 %proton.spent to i32
  %proton.hw = call i32 @llvm.amdgcn.s.getreg(i32 63492)
  %proton.count = lshr i32 %proton.n.2, 3
  %proton.h0 = mul i32 %proton.unit, 64
  %proton.h64 = zext i32 %proton.h0 to i64
  %proton.header = getelementptr i8, ptr addrspace(1) %proton.at, i64 %proton.h64
  %proton.die = call i32 @llvm.amdgcn.s.getreg(i32 63508)
  %proton.h.48 = getelementptr i8, ptr addrspace(1) %proton.header, i64 48
  store i32 %proton.die, ptr addrspace(1) %proton.h.48, align 4
  %proton.h.4 = getelementptr i8, ptr addrspace(1) %proton.header, i64 4
  store i32 %proton.hw, ptr addrspace(1) %proton.h.4, align 4
  %proton.h.16 = getelementptr i8, ptr addrspace(1) %proton.header, i64 16
  store i64 %proton.start.time, ptr addrspace(1) %proton.h.16, align 4
  %proton.h.24 = getelementptr i8, ptr addrspace(1) %proton.header, i64 24
  store i64 %proton.start.clock, ptr addrspace(1) %proton.h.24, align 4
  %proton.h.32 = getelementptr i8, ptr addrspace(1) %proton.header, i64 32
  store i64 %proton.end.time, ptr addrspace(1) %proton.h.32, align 4
  %proton.h.40 = getelementptr i8, ptr addrspace(1) %proton.header, i64 40
  store i64 %proton.end.clock, ptr addrspace(1) %proton.h.40, align 4
  %proton.h.8 = getelementptr i8, ptr addrspace(1) %proton.header, i64 8
  store i32 %proton.count, ptr addrspace(1) %proton.h.8, align 4
  %proton.h.12 = getelementptr i8, ptr addrspace(1) %proton.header, i64 12
  store i32 %proton.spent32, ptr addrspace(1) %proton.h.12, align 4
  %proton.h.0 = getelementptr i8, ptr addrspace(1) %proton.header, i64 0
  store i32 827282000, ptr addrspace(1) %proton.h.0, align 4
  br label %proton.done

proton.done:
  ret void
}

declare i32 @llvm.amdgcn.workitem.id.x()

declare i32 @llvm.amdgcn.workgroup.id.x()

declare i32 @llvm.amdgcn.workgroup.id.y()

declare i32 @llvm.amdgcn.workgroup.id.z()

declare i32 @llvm.amdgcn.readfirstlane.i32(i32)

declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()

declare i32 @llvm.amdgcn.s.getreg(i32 immarg)

declare void @llvm.amdgcn.sched.barrier(i32 immarg)

declare i64 @llvm.readsteadycounter()

declare i64 @llvm.readcyclecounter()

declare i32 @llvm.ctpop.i32(i32)

attributes #0 = { nounwind   "amdgpu-no-dispatch-id"  }
attributes #1 = { nounwind }

!0 = distinct !{!0}
